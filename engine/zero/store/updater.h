// The processor that updates masters and states: the device or, for a GPU that offloads them, the host.
#pragma once
#include "engine/ops/ops.h"
#include "engine/zero/store/away.h"

namespace ft::zero {

class Updater {
 public:
  Updater(const Ops& device, const Homes& homes)
      : host_(homes.host.get()),
        shares_memory_(device.device().kind == Device::Kind::cpu),
        on_host_(homes.host && homes.states && !shares_memory_) {}

  bool on_host() const { return on_host_; }
  // Returns the Ops for data being updated: `usual` (the device's, or a wrapper) or the host's.
  Ops& ops(Ops& usual) const { return on_host_ ? *host_ : usual; }
  // Returns the permanent address of byte `at` of offloaded data, for this processor; null: it must be
  // fetched.
  std::byte* in_place(const Away& away, std::int64_t at) const {
    return on_host_ || shares_memory_ ? away.depot->in_place(at) : nullptr;
  }
  Depot& mover(const Away& away) const { return on_host_ ? away.depot->for_host() : *away.depot; }

 private:
  Ops* host_;
  bool shares_memory_, on_host_;  // shares_memory: the device's memory is the host's
};

}  // namespace ft::zero
