// Random-LTD, random layerwise token dropping (Yao et al. 2022): in training some blocks see only a random
// part of each sequence's tokens, in their order; the others pass by.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/pass/context.h"

namespace ft {

inline const std::string kRandomLtd = "data_efficiency.data_routing.random_ltd";  // in errors

// The rows of a pass that a block sees.
struct PickedRows {
  std::vector<std::int32_t> rows;       // ascending
  std::vector<std::int32_t> positions;  // (rows) in their sequences
  std::vector<std::int32_t> starts;     // of the sequences, among the picked
};

// kept[s + 1] - kept[s] rows of sequence s, whose rows are [starts[s], starts[s + 1]); every choice is as
// likely as every other, and a function of `random`.
PickedRows pick_rows(std::span<const std::int32_t> starts, std::span<const std::int32_t> kept, Random random);

}  // namespace ft
