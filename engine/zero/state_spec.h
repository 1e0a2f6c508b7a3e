// Declaration of the states that an optimizer keeps beside the trained parameters, so that the store
// allocates, shards, saves and restores them without knowing the optimizer.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>

#include "engine/core/divide.h"
#include "engine/zero/parameter.h"

namespace ft {

// The elements of a parameter that one element of a state belongs to. blocks: a block of elements. rows,
// columns: a row or column of a parameter (..., rows, columns); the state is complete on every rank.
// complete: one element; complete on every rank. own and shares are for sums of signs (sign_sum.h). own: one
// element, with different values on every rank. shares: one element; each rank keeps its share of them.
enum class Kept : std::uint8_t { blocks, rows, columns, complete, own, shares };

// A rank's share of a parameter's n elements. Shares are consecutive and equal, a multiple of 8 (whole bytes
// of signs); the last ranks may have fewer elements, or none.
struct Share {
  std::int64_t first, count;
  static constexpr std::int64_t most(std::int64_t n, std::int64_t ranks) {
    return round_up(ceil_div(n, ranks), std::int64_t{8});
  }
  static constexpr Share of(std::int64_t n, std::int64_t rank, std::int64_t ranks) {
    const std::int64_t first = std::min(n, rank * most(n, ranks));
    return {first, std::min(n - first, most(n, ranks))};
  }
};

// Declares an array for each parameter, initially zeros. An array element stands for `block` consecutive
// elements of the parameter, counted from the parameter's first: block 1 is a running mean, block 256 the
// absmax of bitsandbytes' 8-bit states. No block is split between ranks, so the number of ranks does not
// change results.
struct StateSpec {
  std::string_view name;  // checkpoints call the array PARAMETER.NAME
  DType dtype = DType::f32;
  std::int64_t block = 1;
  Kept kept = Kept::blocks;
  bool complete_gradient = false;  // the update needs the parameter's complete gradient on every rank

  bool unsharded() const { return kept != Kept::blocks; }  // not sharded like the parameter
  bool differs() const { return kept == Kept::own || kept == Kept::shares; }          // between ranks
  std::int64_t elements(std::int64_t count) const { return ceil_div(count, block); }  // for kept == blocks
  Shape shape_for(const Shape& parameter) const;
  // Returns the shape of all ranks' parts together, as checkpoints hold it.
  Shape saved_shape(const Shape& parameter, std::int64_t ranks) const {
    return kept == Kept::own ? Shape{ranks, parameter.numel()} : shape_for(parameter);
  }
  bool operator==(const StateSpec&) const = default;
};

inline Shape StateSpec::shape_for(const Shape& p) const {
  if (kept == Kept::blocks) return block == 1 ? p : Shape{elements(p.numel())};
  Shape s;
  for (int i = 0; i < p.rank; ++i)
    if (kept == Kept::complete || differs() || i != p.rank - (kept == Kept::rows ? 1 : 2))
      s.dims[s.rank++] = p[i];
  return s;
}

inline bool want_complete_gradient(std::span<const StateSpec> states) {
  return std::ranges::any_of(states, [](const StateSpec& s) { return s.complete_gradient; });
}

// The number of elements in a block that no rank boundary may split.
inline std::int64_t common_block(std::span<const StateSpec> states) {
  std::int64_t block = 1;
  for (const StateSpec& s : states) block = std::lcm(block, s.block);
  return block;
}

// Returns the states of a trained parameter, in the order in which the optimizer gets them. They may differ
// between parameters: 8-bit optimizers keep the states of small parameters in f32.
using StatesOf = std::function<std::span<const StateSpec>(const Parameter&)>;
inline std::span<const StateSpec> no_states(const Parameter&) { return {}; }

}  // namespace ft
