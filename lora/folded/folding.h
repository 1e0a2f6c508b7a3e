// Kinds of adapters that ft reads and does not train: AdaLoRA, VeRA, LoHa, LoKr, IA3, BOFT. Their change of a
// weight is computed in f32 and folded into it while the model is loaded or merged, as PEFT's
// merge_and_unload does.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/files/json.h"
#include "lora/attach.h"
#include "lora/peft.h"

namespace ft {
class Ops;
}

namespace ft::lora {

class FoldedLinear;

struct Folding {
  // Throws UserError (input) unless a Linear has all its tensors, in the right shapes.
  void (*check)(const FoldedLinear&);
  // Changes the weight W (out, in), f32 in the host's memory.
  void (*change)(Ops&, const FoldedLinear&, Tensor w);
  // Changes the Linear's bias; null: it stays.
  void (*change_bias)(const FoldedLinear&, std::vector<float>& bias) = nullptr;
};

// An adapter in its folder, and the largest of its Linears.
struct FoldedAdapter {
  AdapterFolder files;
  JsonObject json;  // adapter_config.json
  std::int64_t most_in = 0, most_out = 0;
  mutable std::set<const StoredTensor*> used;  // the tensors that FoldedLinear::expect() has seen

  explicit FoldedAdapter(const std::string& folder);
};

// A tensor's values, with at most two dimensions.
struct FoldedValues {
  std::vector<float> values;
  Shape shape;
  Tensor tensor() { return {reinterpret_cast<std::byte*>(values.data()), DType::f32, shape}; }
};

// An adapted Linear y = x W^T with W (out, in). A tensor is named by the last part of its name, such as
// ia3_l, or completely, such as base_model.vera_A.
class FoldedLinear {
 public:
  FoldedLinear(const FoldedAdapter&, const ChosenLinear&);

  const JsonObject& config() const { return adapter_->json; }
  std::int64_t most_in() const { return adapter_->most_in; }
  std::int64_t most_out() const { return adapter_->most_out; }
  bool has(std::string_view tensor) const { return find(tensor) != nullptr; }
  // Throws UserError (input) if there is no such tensor, or it has no float type that ft reads.
  const std::vector<std::int64_t>& shape(std::string_view tensor) const;
  // Throws UserError (input) unless the tensor exists in this shape.
  void expect(std::string_view tensor, const std::vector<std::int64_t>& shape) const;
  std::vector<float> values(std::string_view tensor) const;
  FoldedValues matrix(std::string_view tensor) const;
  // Returns the product of two matrices.
  FoldedValues product(Ops&, std::string_view left, std::string_view right) const;
  // Throws UserError (input) that names the file and the tensor.
  [[noreturn]] void refuse(std::string_view tensor, const std::string& fault) const;

  std::string name;
  std::int64_t in, out, rank;
  float scale;  // alpha / rank

 private:
  std::string complete(std::string_view tensor) const;
  const StoredTensor* find(std::string_view tensor) const;
  const StoredTensor& at(std::string_view tensor) const;

  const FoldedAdapter* adapter_;
};

}  // namespace ft::lora
