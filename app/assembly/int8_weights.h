// A model's linears in 8 bits, for answers (--quantize int8), or its head (--quantize-head int8): quantized
// one after another as they are loaded.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/files/weights.h"
#include "engine/formats/int8.h"
#include "engine/layers/linear.h"
#include "engine/model/model.h"

namespace ft {

class Int8Weights {
 public:
  // Gives frozen linears weights in 8 bits: all but those named, and but a head that shares the embedding's
  // table. UserError(config): there is none, or an adapter compares with what they are (DoRA).
  Int8Weights(Model&, const std::vector<std::string>& never_quantized);
  // The head alone. UserError(config): it is no matrix of its own that could be.
  static Int8Weights of_head(Model&, const std::string& head,
                             const std::vector<std::string>& never_quantized);

  bool has(const Parameter& p) const { return by_parameter_.contains(p.name); }
  // Makes sure that the base has them in their shapes.
  void expect(const WeightSource& base) const;
  // Elements of one of their parameters from `first` on. One weight is held at a time.
  void read(const WeightSource& base, const Parameter&, const Tensor& y, std::int64_t first) const;

 private:
  Int8Weights() = default;
  // Whether it could be done; `option` is what asks for it.
  bool quantize(Linear&, const char* option);

  std::map<std::string, Int8Weight*> by_parameter_;
  mutable const Int8Weight* held_ = nullptr;  // that data_ is of
  mutable Int8Data data_;
};

}  // namespace ft
