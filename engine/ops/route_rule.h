// Scores of experts and the choice of a token's experts, shared by all backends.
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"

namespace ft {

// The rule that turns a token's logits into the weights of its experts.
struct RouteRule {
  bool sigmoid = false;     // scores: the sigmoid of each logit; false: the softmax of all
  bool normalised = false;  // the weights are divided by their sum
  float scale = 1;          // of the weights, at last
  // Groups of E / groups experts: only experts of the `kept` best groups can be chosen. The score of a group
  // is the sum of its `best` largest scores, 1 or 2 (DeepSeek-AI 2024). At most kMostGroups.
  std::int32_t groups = 1, kept = 1, best = 1;

  static constexpr std::int32_t kMostGroups = 64;
};

namespace math {

// Returns the divisor of chosen experts' scores. sum: their sum. Sigmoids may add up to 0, so 1e-20 keeps the
// quotient finite, as in transformers.
FT_HD inline float route_divisor(const RouteRule& rule, float sum) {
  return !rule.normalised ? 1 : rule.sigmoid ? sum + 1e-20f : sum;
}

// Returns the number that normalisation subtracts from the gradient of each of a token's k weights; 0 without
// normalisation. A single expert's weight does not depend on its score: its gradient is subtracted exactly.
FT_HD inline float route_pull(const RouteRule& rule, const float* dweights, const float* p,
                              const std::int32_t* ids, std::int64_t k, float sum) {
  if (!rule.normalised) return 0;
  if (k == 1) return dweights[0];
  float pull = 0;
  for (std::int64_t j = 0; j < k; ++j) pull += dweights[j] * p[ids[j]] / sum;
  return pull;
}

// Keys that choose a token's experts: their scores, plus a bias if there is one.
struct RouteKeys {
  const float *scores, *bias;
  FT_HD inline float of(std::int64_t e) const { return bias ? scores[e] + bias[e] : scores[e]; }
};

FT_HD inline float group_score(const RouteKeys& keys, std::int64_t group, std::int64_t size, bool two) {
  float first = -__builtin_huge_valf(), second = first;
  for (std::int64_t e = group * size; e < (group + 1) * size; ++e) {
    const float key = keys.of(e);
    second = key > first ? first : key > second ? key : second;
    first = key > first ? key : first;
  }
  return two ? first + second : first;
}

// Returns the groups whose experts can be chosen, as bits. NaNs are never larger, so at least `kept` groups
// remain.
FT_HD inline std::uint64_t kept_groups(const RouteKeys& keys, std::int64_t experts, const RouteRule& rule) {
  const std::int64_t size = experts / rule.groups;
  std::uint64_t bits = 0;
  for (std::int64_t g = 0; g < rule.groups; ++g) {
    const float own = group_score(keys, g, size, rule.best == 2);
    std::int32_t better = 0;
    for (std::int64_t other = 0; other < rule.groups; ++other) {
      const float score = group_score(keys, other, size, rule.best == 2);
      better += score > own || (score == own && other < g);
    }
    if (better < rule.kept) bits |= std::uint64_t{1} << g;
  }
  return bits;
}

// ids: the k experts with the largest keys, in descending order; of equal keys the first. NaNs are never
// larger, so the k experts always differ.
FT_HD inline void choose_experts(std::int32_t* ids, const RouteKeys& keys, std::int64_t experts,
                                 std::int64_t k, const RouteRule& rule) {
  const std::uint64_t groups = rule.groups > 1 ? kept_groups(keys, experts, rule) : 1;
  const std::int64_t size = experts / rule.groups;
  for (std::int64_t j = 0; j < k; ++j) {
    std::int64_t best = -1;
    for (std::int64_t e = 0; e < experts; ++e) {
      bool taken = (groups >> (e / size) & 1) == 0;
      for (std::int64_t i = 0; i < j; ++i) taken = taken || ids[i] == e;
      if (!taken && (best < 0 || keys.of(e) > keys.of(best))) best = e;
    }
    ids[j] = static_cast<std::int32_t>(best);
  }
}

}  // namespace math
}  // namespace ft
