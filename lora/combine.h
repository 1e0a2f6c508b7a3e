// Several tensors as one, as PEFT's merge_utils combine what fine-tuning changed: a weighted sum (task
// arithmetic), before which small values may be pruned (TIES, Yadav et al. 2023: of the rest only those
// count that have the sign of the majority) or random ones (DARE, Yu et al. 2024: the rest grows to make up
// for it).
#pragma once
#include <cstdint>
#include <vector>

#include "engine/core/random.h"

namespace ft::lora {

enum class Pruning : std::uint8_t { none, small, random };
enum class Election : std::uint8_t { none, total, frequency };  // of signs: by their sum, or by their number

struct CombineRule {
  Pruning pruning = Pruning::none;
  Election election = Election::none;
  double density = 1;  // of values that pruning leaves, in (0, 1]
};

// Tensors of one size, a weight for each. Which values are pruned at random is a function of (random, number
// of the tensor, place).
std::vector<float> combine(std::vector<std::vector<float>> tensors, const std::vector<double>& weights,
                           const CombineRule&, Random);

}  // namespace ft::lora
