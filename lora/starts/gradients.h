// Collects the gradients of adapted Linears' weights, for initial values that depend on them.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model/model.h"
#include "lora/attach.h"

namespace ft::lora {

// Replaces the Linears' adapters during its lifetime. Their parameters stay in the model, so that backward
// passes reach all of the Linears, but they take no part.
class WeightGradients {
 public:
  // dw (out, in) f32, in the host's memory: a micro-batch's gradient of the weight of the n-th Linear of
  // `attached`, or a part of this sum.
  using See = std::function<void(std::size_t linear, const Tensor& dw)>;
  WeightGradients(Model&, const Attached&);
  ~WeightGradients();
  WeightGradients(const WeightGradients&) = delete;
  WeightGradients& operator=(const WeightGradients&) = delete;

  See see;  // empty: memory is taken, but no gradients are passed

 private:
  std::vector<std::pair<Linear*, std::unique_ptr<Adapter>>> hidden_;
};

}  // namespace ft::lora
