#include "engine/train/objectives/rollout_correction.h"

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "engine/train/objectives/config.h"

namespace ft {
namespace {

constexpr const char* kDifferenceMean = "sampling/sampling_logp_difference/mean";
constexpr const char* kDifferenceMax = "sampling/sampling_logp_difference/max";
constexpr const char* kRatioMin = "sampling/importance_sampling_ratio/min";
constexpr const char* kRatioMean = "sampling/importance_sampling_ratio/mean";
constexpr const char* kRatioMax = "sampling/importance_sampling_ratio/max";

bool of_answers(const RolloutServerSettings& c) {
  return c.correction() == RolloutCorrection::sequence_mask ||
         c.correction() == RolloutCorrection::sequence_truncate;
}

double weight_of(const RolloutServerSettings& c, double ahead) {
  const double ratio = std::exp(ahead), most = c.rollout_correction_max.value_or(3),
               least = c.rollout_correction_min.value_or(0);
  const bool masks =
      c.correction() == RolloutCorrection::sequence_mask || c.correction() == RolloutCorrection::token_mask;
  if (std::isnan(ratio)) return 0;  // the step is skipped: its loss is not finite
  if (!masks) return std::clamp(ratio, least, most);
  return ratio < least || ratio > most ? 0 : ratio;
}

// Returns the weights of the tokens, or the one weight of the answer.
std::vector<double> own_weights(const RolloutServerSettings& c, const SampledLogps& of) {
  require(of.policy.size() == of.sampled.size(), "a log-probability for each token");
  std::vector<double> weights;
  double sum = 0;
  for (std::size_t t = 0; t < of.policy.size(); ++t) {
    const double ahead = of.policy[t] - of.sampled[t];
    sum += ahead;
    if (!of_answers(c)) weights.push_back(weight_of(c, ahead));
  }
  if (of_answers(c)) weights.push_back(weight_of(c, sum));
  return weights;
}

}  // namespace

std::vector<double> correction_weights(const RolloutServerSettings& c, const SampledLogps& of) {
  const std::vector<double> own = own_weights(c, of);
  return of_answers(c) ? std::vector<double>(of.policy.size(), own[0]) : own;
}

std::vector<std::string> correction_columns() {
  return {kDifferenceMean, kDifferenceMax, kRatioMin, kRatioMean, kRatioMax};
}

Measures correction_figures(const RolloutServerSettings& c, std::span<const SampledLogps> all) {
  double tokens = 0, sum = 0, most = 0;
  std::vector<double> weights;
  for (const SampledLogps& of : all) {
    if (of.policy.empty()) continue;
    for (std::size_t t = 0; t < of.policy.size(); ++t) {
      const double difference = std::abs(of.policy[t] - of.sampled[t]);
      sum += difference;
      most = std::max(most, difference);
      ++tokens;
    }
    const std::vector<double> own = own_weights(c, of);
    weights.insert(weights.end(), own.begin(), own.end());
  }
  double mean = 0;
  for (const double w : weights) mean += w / static_cast<double>(weights.size());
  const auto [low, high] = std::ranges::minmax_element(weights);
  const bool none = weights.empty();
  return {{kDifferenceMean, sum / std::max(1.0, tokens)},
          {kDifferenceMax, most},
          {kRatioMin, none ? 0 : *low},
          {kRatioMean, mean},
          {kRatioMax, none ? 0 : *high}};
}

void check_rollout_server(const ObjectiveConfig& c, const Refuse& refuse, bool by_answer) {
  const std::pair<bool, const char*> given[] = {
      {c.rollout_server_model.has_value(), "rollout_server_model"},
      {c.rollout_server_key_file.has_value(), "rollout_server_key_file"},
      {c.rollout_server_timeout.has_value(), "rollout_server_timeout"},
      {c.rollout_sync_steps.has_value(), "rollout_sync_steps"},
      {c.rollout_lookahead.has_value(), "rollout_lookahead"},
      {c.rollout_correction.has_value(), "rollout_correction"},
      {c.rollout_correction_max.has_value(), "rollout_correction_max"},
      {c.rollout_correction_min.has_value(), "rollout_correction_min"}};
  for (const auto& [is_given, name] : given)
    if (is_given && !c.rollout_server)
      refuse(str("objective.", name, ": has no effect without objective.rollout_server"));
  if (!c.rollout_server) return;
  if (c.rewards() == 0)
    refuse(
        "objective.rollout_server: answers are given, not generated; objective.reward_funcs or "
        "objective.reward_command would have them generated");
  const std::string& url = *c.rollout_server;
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    refuse(str("objective.rollout_server: begins with http:// or https://, is ", printable(url)));
  const RolloutCorrection correction = c.correction();
  if (correction == RolloutCorrection::none) {
    if (c.looks_ahead())
      refuse(
          "objective.rollout_lookahead: answers of older weights need importance weights; set another "
          "objective.rollout_correction than none");
    if (c.rollout_correction_max || c.rollout_correction_min)
      refuse(str("objective.", c.rollout_correction_max ? "rollout_correction_max" : "rollout_correction_min",
                 ": has no effect with objective.rollout_correction=none"));
    return;
  }
  if (c.rollout_correction_min.value_or(0) > c.rollout_correction_max.value_or(3))
    refuse("objective.rollout_correction_min: is above objective.rollout_correction_max");
  if (by_answer && !of_answers(c))
    refuse(str("objective.rollout_correction: ", name_of(correction), " weighs tokens, and objective.type ",
               name_of(c.type), " compares complete answers; set sequence_mask or sequence_truncate"));
  if (c.temperature.value_or(1) != 1)
    refuse(
        "objective.temperature: a server tells log-probabilities before the temperature, the run after it; "
        "leave it out, or set objective.rollout_correction=none");
}

}  // namespace ft
