// What an optimizer keeps beside what it trains. It is declared, so that the store allocates, shards, saves
// and restores it without knowing the optimizer.
#pragma once
#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <string_view>

#include "engine/core/divide.h"
#include "engine/zero/parameter.h"

namespace ft {

// What a state has an element for: blocks of elements; or, of a parameter (..., rows, columns), its rows, its
// columns, or all of its elements, whole on every rank; or, for sums of signs (sign_sum.h), all of its
// elements, on every rank others, or on every rank its share of them.
enum class Kept : std::uint8_t { blocks, rows, columns, whole, own, shares };

// Each of some ranks has the same number of a parameter's n elements in a row, in whole bytes of signs; the
// last ranks may have fewer, or none.
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

// One array for each parameter; it begins as zeros. One of its elements stands for `block` consecutive
// elements of the parameter, counted from the parameter's first: block 1 is a running mean, block 256 the
// absmax that bitsandbytes keeps for its 8-bit states. Ranks are never cut apart within a block, so their
// number changes no result.
struct StateSpec {
  std::string_view name;  // checkpoints call the array PARAMETER.NAME
  DType dtype = DType::f32;
  std::int64_t block = 1;
  Kept kept = Kept::blocks;
  bool whole_gradient = false;  // the step needs the parameter's whole gradient, whoever steps which part

  bool whole() const { return kept != Kept::blocks; }                       // is not cut as the parameter is
  bool apart() const { return kept == Kept::own || kept == Kept::shares; }  // differs between ranks
  std::int64_t elements(std::int64_t count) const { return ceil_div(count, block); }  // of blocks
  Shape shape_for(const Shape& parameter) const;
  // The shape of all ranks' parts together, as checkpoints hold it.
  Shape saved_shape(const Shape& parameter, std::int64_t ranks) const {
    return kept == Kept::own ? Shape{ranks, parameter.numel()} : shape_for(parameter);
  }
  bool operator==(const StateSpec&) const = default;
};

inline Shape StateSpec::shape_for(const Shape& p) const {
  if (kept == Kept::blocks) return block == 1 ? p : Shape{elements(p.numel())};
  Shape s;
  for (int i = 0; i < p.rank; ++i)
    if (kept == Kept::whole || apart() || i != p.rank - (kept == Kept::rows ? 1 : 2)) s.dims[s.rank++] = p[i];
  return s;
}

inline bool want_whole_gradient(std::span<const StateSpec> states) {
  return std::ranges::any_of(states, [](const StateSpec& s) { return s.whole_gradient; });
}

// The number of elements within which nothing is cut.
inline std::int64_t common_block(std::span<const StateSpec> states) {
  std::int64_t block = 1;
  for (const StateSpec& s : states) block = std::lcm(block, s.block);
  return block;
}

// The states of a trained parameter, in the order in which the optimizer gets them. They may differ between
// parameters: 8-bit optimizers keep the small ones in f32.
using StatesOf = std::function<std::span<const StateSpec>(const Parameter&)>;
inline std::span<const StateSpec> no_states(const Parameter&) { return {}; }

}  // namespace ft
