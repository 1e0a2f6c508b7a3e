// What an optimizer keeps beside what it trains. It is declared, so that the store allocates, shards, saves
// and restores it without knowing the optimizer.
#pragma once
#include <functional>
#include <numeric>
#include <span>
#include <string_view>

#include "engine/core/divide.h"
#include "engine/dist/parameter.h"

namespace ft {

// One array for each parameter; it begins as zeros. One of its elements stands for `block` consecutive
// elements of the parameter, counted from the parameter's first: block 1 is a running mean, block 256 the
// absmax that bitsandbytes keeps for its 8-bit states. Ranks are never cut apart within a block, so their
// number changes no result.
struct StateSpec {
  std::string_view name;  // checkpoints call the array PARAMETER.NAME
  DType dtype = DType::f32;
  std::int64_t block = 1;

  std::int64_t elements(std::int64_t count) const { return ceil_div(count, block); }
  bool operator==(const StateSpec&) const = default;
};

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
