#include "engine/train/objectives/valuation.h"

namespace ft {

double Trajectory::kl() const {
  double sum = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) sum += logps[i] - reference[i];
  return sum;
}

std::vector<double> rewards_of(std::span<const Trajectory> all) {
  std::vector<double> rewards;
  for (const Trajectory& t : all) rewards.push_back(t.score);
  return rewards;
}

}  // namespace ft
