#include "engine/generate/log_probabilities.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ft {
namespace {

constexpr float kLeast = -9999;  // replaces minus infinity, which JSON does not have, as in other servers

}  // namespace

LogProbabilities::LogProbabilities(std::span<const float> scores) : scores_(scores.begin(), scores.end()) {
  const double most = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const float s : scores) sum += std::exp(double(s) - most);
  log_sum_ = most + std::log(sum);
}

float LogProbabilities::logprob(std::size_t token) const {
  const auto p = static_cast<float>(double(scores_[token]) - log_sum_);
  return p > kLeast ? p : kLeast;  // kLeast also if p is NaN
}

ScoredToken LogProbabilities::of(std::int32_t token, std::size_t top) const {
  ScoredToken scored{.token = token, .logprob = logprob(static_cast<std::size_t>(token))};
  top = std::min(top, scores_.size());
  std::vector<std::int32_t> best(top > 0 ? scores_.size() : 0);
  std::iota(best.begin(), best.end(), 0);
  const auto better = [&](std::int32_t a, std::int32_t b) {
    const float x = logprob(static_cast<std::size_t>(a)), y = logprob(static_cast<std::size_t>(b));
    return x != y ? x > y : a < b;
  };
  std::partial_sort(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(top), best.end(), better);
  for (std::size_t i = 0; i < top; ++i)
    scored.top.push_back({best[i], logprob(static_cast<std::size_t>(best[i]))});
  return scored;
}

}  // namespace ft
