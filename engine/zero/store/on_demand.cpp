#include "engine/zero/store/on_demand.h"

#include <algorithm>
#include <span>

namespace ft::zero {

// Returns the same for trained parameters under every stage, because the gradient's norm is added up unit by
// unit.
bool OnDemand::suits(const Parameter& p) const {
  const bool several = layout_.ranks().sharing(p.dealt).size() > 1,
             sharded = layout_.options().stage.params == Placement::sharded;
  if (layout_.persists(p)) return false;
  return p.trainable ? several : values_.offloads() || (several && sharded);
}

// Values and gradients that every rank has in memory need no other rank. In a plan no rank answers: all units
// are wanted.
std::vector<std::uint8_t> OnDemand::wanted_by_any(const std::vector<std::uint8_t>& mine, bool dealt,
                                                  bool backward) const {
  Communicator& ranks = layout_.ranks().sharing(dealt);
  const std::size_t n = mine.size();
  if (!values_.gathers() && !(backward && gradients_.has_temporary())) return std::vector<std::uint8_t>(n, 1);
  std::vector<std::uint8_t> all(n * static_cast<std::size_t>(ranks.size()), 1), any(n, 0);
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(n) * ranks.rank());
  ranks.all_gather_host(std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < all.size(); ++i) any[i % n] |= all[i];
  return any;
}

// Several from a file, as reading takes a while to begin.
std::int64_t OnDemand::ahead(int unit) const {
  constexpr std::int64_t kMost = 16;
  if (!values_.offloads()) return 1;
  const std::int64_t each = std::max<std::int64_t>(1, layout_.unit(unit).elements);
  return std::clamp<std::int64_t>(layout_.options().prefetch / each, 1, kMost);
}

}  // namespace ft::zero
