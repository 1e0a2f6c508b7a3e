// What adapted Linears read, for starts that are taken from data.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/model/model.h"
#include "lora/attach.h"

namespace ft::lora {

// In place of the Linears' adapters while it lives.
class Watch {
 public:
  // x (rows, in): what the n-th Linear of `attached` reads.
  using See = std::function<void(std::size_t linear, const Tensor& x)>;
  Watch(Model&, const Attached&, See);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  // Which Linears to watch; none: memory is taken as for all of them, and nothing is seen.
  std::function<bool(std::size_t linear)> wants;

 private:
  See see_;
  std::vector<std::pair<Linear*, std::unique_ptr<Adapter>>> hidden_;
};

}  // namespace ft::lora
