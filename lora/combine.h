// Combines several tensors into one, as PEFT's merge_utils combine the changes by fine-tuning: a weighted sum
// (task arithmetic). Before it, small values may be pruned (TIES, Yadav et al. 2023: only the remaining
// values with the sign of the majority count) or random ones (DARE, Yu et al. 2024: the remaining values are
// scaled up in compensation).
#pragma once
#include <cstdint>
#include <vector>

#include "engine/core/random.h"

namespace ft::lora {

enum class Pruning : std::uint8_t { none, small, random };
enum class Election : std::uint8_t { none, total, frequency };  // sign of the sum, or of most values

struct CombineRule {
  Pruning pruning = Pruning::none;
  Election election = Election::none;
  double density = 1;  // fraction of values that pruning keeps, in (0, 1]
};

// Combines tensors of one size, with a weight for each. Random pruning of a value depends only on (random,
// number of the tensor, index).
std::vector<float> combine(std::vector<std::vector<float>> tensors, const std::vector<double>& weights,
                           const CombineRule&, Random);

}  // namespace ft::lora
