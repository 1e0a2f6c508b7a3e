// Linears with 8-bit weights, for commands that generate answers: every linear (--quantize int8) or only the
// head (--quantize-head int8). They are quantized one after another during loading.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "engine/files/safetensors/weights.h"
#include "engine/formats/int8.h"
#include "engine/layers/linear.h"
#include "engine/model/model.h"

namespace ft {

class Int8Weights {
 public:
  // Quantizes the frozen linears except `never_quantized` and a head that shares the embedding's table.
  // Throws UserError (config) if there is no linear to quantize, or if DoRA needs the unquantized weights.
  Int8Weights(Model&, const std::vector<std::string>& never_quantized);
  // Quantizes only the head. Throws UserError (config) if the head shares the embedding's table, is quantized
  // already, or belongs to the adapter.
  static Int8Weights of_head(Model&, const std::string& head,
                             const std::vector<std::string>& never_quantized);

  bool has(const Parameter& p) const { return by_parameter_.contains(p.name); }
  // Throws UserError (input) unless the base has these weights in their shapes.
  void expect(const WeightSource& base) const;
  // Reads elements of a parameter, codes or scales, from `first` on. Keeps one quantized weight at a time.
  void read(const WeightSource& base, const Parameter&, const Tensor& y, std::int64_t first) const;

 private:
  Int8Weights() = default;
  // Quantizes the linear. Returns false if its weight is not dense or is trained. `option` is named in
  // errors.
  bool quantize(Linear&, const char* option);

  std::map<std::string, Int8Weight*> by_parameter_;
  mutable const Int8Weight* held_ = nullptr;  // the weight whose data data_ holds
  mutable Int8Data data_;
};

}  // namespace ft
