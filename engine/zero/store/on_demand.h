// Units that are not in the expected order of a pass: a layer acquires them when a token needs them
// (experts). All ranks that have such a unit must acquire it in the same order.
#pragma once
#include <vector>

#include "engine/zero/store/reduction.h"
#include "engine/zero/store/residency.h"

namespace ft::zero {

class OnDemand {
 public:
  OnDemand(const Layout& layout, Residency& values, Reduction& gradients)
      : layout_(layout), values_(values), gradients_(gradients) {}

  // Returns true if a unit on demand is useful for a parameter, because the parameter is gathered, fetched,
  // or has a gradient that ranks add up.
  bool suits(const Parameter&) const;
  // For several units: whether any rank that has the unit wants it (mine: 1 or 0). dealt: units of split
  // experts. backward: in a backward pass too.
  std::vector<std::uint8_t> wanted_by_any(const std::vector<std::uint8_t>& mine, bool dealt,
                                          bool backward) const;
  void gather(int unit) { values_.gather(unit); }  // starts to gather a unit ahead
  std::int64_t ahead(int unit) const;              // number of units to gather ahead
  // Returns true if a unit that this backward pass does not use must still be acquired, because its gradients
  // become complete.
  bool completes(int unit) const { return gradients_.completes(unit); }
  // Call after a pass's units of one size, however many it used. Waits for all pending work, so that memory
  // is as planned.
  void settle() { gradients_.settle(); }

 private:
  const Layout& layout_;
  Residency& values_;
  Reduction& gradients_;
};

}  // namespace ft::zero
