// Watches the inputs of adapted Linears, for initial values that depend on data.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model/model.h"
#include "lora/attach.h"

namespace ft::lora {

// Replaces the Linears' adapters during its lifetime.
class Watch {
 public:
  // x (rows, in): inputs of the n-th Linear of `attached`.
  using See = std::function<void(std::size_t linear, const Tensor& x)>;
  Watch(Model&, const Attached&, See);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Chooses the Linears to watch. Empty: memory is taken as for all of them, but no inputs are passed.
  std::function<bool(std::size_t linear)> wants;

 private:
  See see_;
  std::vector<std::pair<Linear*, std::unique_ptr<Adapter>>> hidden_;
};

}  // namespace ft::lora
