// Random-LTD, random layerwise token dropping (Yao et al. 2022): in training some blocks process only a
// random subset of each sequence's tokens, in their order; the other tokens skip these blocks.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "engine/pass/context.h"

namespace ft {

inline const std::string kRandomLtd = "data_efficiency.data_routing.random_ltd";  // in errors

// The rows of a pass that a block processes.
struct PickedRows {
  std::vector<std::int32_t> rows;       // ascending
  std::vector<std::int32_t> positions;  // (rows) positions in their sequences
  std::vector<std::int32_t> starts;     // first rows of the sequences, among the picked rows
};

// Picks kept[s + 1] - kept[s] rows of sequence s, whose rows are [starts[s], starts[s + 1]). Every choice has
// the same probability and is a function of `random`.
PickedRows pick_rows(std::span<const std::int32_t> starts, std::span<const std::int32_t> kept, Random random);

}  // namespace ft
