// One block of a LLaMA-like decoder: h = x + attention(norm(x)), y = h + mlp(norm(h)).
#pragma once
#include "engine/nn/attention.h"
#include "engine/nn/mlp.h"
#include "models/llama/config.h"

namespace ft::llama {

struct Block {
  Norm input_norm, post_norm;
  SelfAttention attention;
  Mlp mlp;

  using Side = Positions;
  struct Saved {
    Tensor input_statistics, post_statistics;  // of the norms
    Tensor h;                                  // (rows, C)
    SelfAttention::Saved attention;
    Mlp::Saved mlp;  // and post_statistics: of a block that runs again, not before its backward
  };
  Saved forward(Ctx&, Tensor y, Tensor x, const Side&, Keep) const;
  void backward(Ctx&, Tensor d, Tensor x, const Saved&, const Side&, bool input_grad) const;
  void visit(Visitor&);
};

Block make_block(const Config&, std::int64_t layer, DType);

}  // namespace ft::llama
