#include "engine/train/objectives/valuation.h"

#include <algorithm>

namespace ft {

double Trajectory::kl() const {
  double sum = 0;
  for (std::size_t i = 0; i < reference.size(); ++i) sum += logps[i] - reference[i];
  return sum;
}

double kl_of_token(std::span<const Trajectory> all) {
  double sum = 0, tokens = 0;
  for (const Trajectory& t : all) {
    sum += t.kl();
    tokens += static_cast<double>(t.logps.size());
  }
  return sum / std::max(1.0, tokens);
}

std::vector<double> rewards_of(std::span<const Trajectory> all) {
  std::vector<double> rewards;
  for (const Trajectory& t : all) rewards.push_back(t.score);
  return rewards;
}

}  // namespace ft
