// The matrices and biases of all experts of a layer in two parameters, as in gpt-oss: y = x W_e + b_e. The
// experts' Linears hold no parameters; their weights are views of the stack. Frozen matrices may be in MXFP4
// (engine/quant/four_bit.h).
#pragma once
#include <optional>

#include "engine/layers/linear.h"

namespace ft {

class ExpertStack {
 public:
  // name: of the matrices (E, in, out); the biases are NAME_bias (E, out).
  ExpertStack(const std::string& name, std::int64_t experts, std::int64_t in, std::int64_t out, DType dtype);

  // Returns the Linear of an expert, without its bias. The stack must outlive it.
  Linear linear(std::int64_t expert) const;
  // Returns an expert's part (out) of the biases, or of their gradient; empty if `all` is empty.
  Tensor bias_of(const Tensor& all, std::int64_t expert) const { return part(all, expert); }
  // Replaces the matrices by parameters in MXFP4, with the names and numbers of bytes of transformers' files.
  void keep_in_mxfp4();
  void visit(Visitor&);
  // Keeps only one rank's experts.
  void share(TensorRank);

  Parameter matrices, biases;
  struct Coded {
    Parameter codes,
        scales;  // NAME_blocks (E, out in / 2), NAME_scales (E, out in / 32), of (out, in) matrices
  };
  std::optional<Coded> coded;  // replaces the matrices

 private:
  class View;
  // Returns an expert's elements of a tensor whose first axis is the experts.
  Tensor part(const Tensor& all, std::int64_t expert) const;

  std::int64_t first_ = 0;  // number of this rank's first expert
};

}  // namespace ft
