// Packing: several samples, each a separate sequence, share one row of max_seq_length tokens.
#pragma once
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

// A stretch of a sample.
struct Stretch {
  std::int64_t sample = 0, begin = 0, length = 0;  // in tokens
  auto operator<=>(const Stretch&) const = default;
};

// Cuts samples into stretches of at most `room` tokens.
std::vector<Stretch> cut_samples(std::span<const std::int64_t> lengths, std::int64_t room);

// Puts the samples, in the order `order`, one after another into packs of `room` tokens; the last may have
// fewer.
std::vector<std::vector<Stretch>> wrap(std::span<const std::int64_t> lengths,
                                       std::span<const std::int64_t> order, std::int64_t room);

// Best fit, longest first: each sample goes into the fullest pack that has room for it. `order` holds indices
// into `lengths`; each is once in the result. Samples of equal length keep their order in `order`, so the
// number of packs does not depend on it. No length may exceed `room`.
std::vector<std::vector<std::int64_t>> pack_best_fit(std::span<const std::int64_t> lengths,
                                                     std::span<const std::int64_t> order, std::int64_t room);

}  // namespace ft
