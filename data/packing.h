// Packing: several samples, each its own sequence, share one row of max_seq_length tokens.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

// Best fit, longest first: each sample goes into the fullest pack that still has room. `order` are indices
// into `lengths`; the result holds every one of them once. Samples of equal length keep the order they have
// in `order`, so the number of packs does not depend on it. No length may exceed `room`.
std::vector<std::vector<std::int64_t>> pack_best_fit(std::span<const std::int64_t> lengths,
                                                     std::span<const std::int64_t> order, std::int64_t room);

}  // namespace ft
