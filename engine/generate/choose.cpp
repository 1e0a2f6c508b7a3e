#include "engine/generate/choose.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/core/error.h"

namespace ft {
namespace {

constexpr float kRuledOut = -std::numeric_limits<float>::infinity();

void penalize(std::span<float> scores, std::span<const std::int32_t> ids, float penalty) {
  std::vector<std::int32_t> once(ids.begin(), ids.end());
  std::sort(once.begin(), once.end());
  once.erase(std::unique(once.begin(), once.end()), once.end());
  for (const std::int32_t id : once) {
    float& s = scores[static_cast<std::size_t>(id)];
    s = s < 0 ? s * penalty : s / penalty;
  }
}

// Rules out every token that followed an earlier occurrence of the last n - 1 tokens.
void forbid_repeats(std::span<float> scores, std::span<const std::int32_t> ids, std::size_t n) {
  if (ids.size() + 1 < n) return;
  const auto end = ids.last(n - 1);
  for (std::size_t i = 0; i + n <= ids.size(); ++i)
    if (std::equal(end.begin(), end.end(), ids.begin() + static_cast<std::ptrdiff_t>(i)))
      scores[static_cast<std::size_t>(ids[i + n - 1])] = kRuledOut;
}

void force(std::span<float> scores, std::int64_t token) {
  require(token < static_cast<std::int64_t>(scores.size()), "a forced token that the model has not");
  std::fill(scores.begin(), scores.end(), kRuledOut);
  scores[static_cast<std::size_t>(token)] = 0;
}

std::int32_t likeliest(std::span<const float> scores) {
  return static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

}  // namespace

TokenChooser::TokenChooser(GenerationConfig config, std::vector<std::int32_t> end_tokens)
    : config_(std::move(config)), end_tokens_(std::move(end_tokens)) {}

bool TokenChooser::ends(std::int32_t token) const {
  return std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
}

void TokenChooser::process(std::span<float> scores, const AnswerSoFar& answer) const {
  const auto length = static_cast<std::int64_t>(answer.ids.size());
  if (config_.repetition_penalty != 1)
    penalize(scores, answer.ids, static_cast<float>(config_.repetition_penalty));
  if (config_.no_repeat_ngram_size > 0)
    forbid_repeats(scores, answer.ids, static_cast<std::size_t>(config_.no_repeat_ngram_size));
  const std::int64_t least = config_.min_new_tokens > 0
                                 ? static_cast<std::int64_t>(answer.prompt) + config_.min_new_tokens
                                 : config_.min_length;
  if (length < least)
    for (const std::int32_t end : end_tokens_)
      if (static_cast<std::size_t>(end) < scores.size()) scores[static_cast<std::size_t>(end)] = kRuledOut;
  if (config_.forced_bos_token_id && length == 1) force(scores, *config_.forced_bos_token_id);
  if (config_.forced_eos_token_id && answer.ids.size() + 1 == answer.most)
    force(scores, *config_.forced_eos_token_id);
}

void TokenChooser::require_numbers(std::span<const float> scores) {
  if (std::any_of(scores.begin(), scores.end(), [](float s) { return std::isnan(s); }))
    throw UserError(Exit::numeric, "the model's logits are NaN: are its weights damaged, or not trained?");
}

// Returns the tokens that temperature and top_k leave.
std::vector<TokenChooser::Candidate> TokenChooser::candidates(std::span<const float> scores) const {
  const auto temperature = static_cast<float>(config_.temperature);
  float least = kRuledOut;
  if (config_.top_k > 0 && static_cast<std::size_t>(config_.top_k) < scores.size()) {
    std::vector<float> copy(scores.begin(), scores.end());
    const auto kth = copy.begin() + config_.top_k - 1;
    std::nth_element(copy.begin(), kth, copy.end(), std::greater<>());
    least = *kth;
  }
  std::vector<Candidate> kept;
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (scores[i] >= least && scores[i] > kRuledOut)
      kept.push_back({scores[i] / temperature, static_cast<std::int32_t>(i)});
  return kept;
}

// Applies top_p and min_p. Leaves the kept tokens ordered from best to worst.
void TokenChooser::keep_probable(std::vector<Candidate>& c) const {
  const bool nucleus = config_.top_p < 1;
  if (!nucleus && !config_.min_p) return;
  std::stable_sort(c.begin(), c.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  const auto weight = [&](std::size_t i) { return std::exp(double(c[i].score) - double(c[0].score)); };
  std::size_t kept = c.size();
  if (nucleus) {
    double total = 0, sum = 0;
    for (std::size_t i = 0; i < kept; ++i) total += weight(i);
    // a token is dropped if it and all later ones make up at most 1 - top_p
    while (kept > 1 && sum + weight(kept - 1) <= (1 - config_.top_p) * total) sum += weight(--kept);
  }
  if (config_.min_p)
    while (kept > 1 && weight(kept - 1) < *config_.min_p) --kept;
  c.resize(kept);
}

std::int32_t TokenChooser::choose(std::span<float> scores, const AnswerSoFar& answer, Random random) const {
  require_numbers(scores);
  process(scores, answer);
  if (!config_.do_sample) return likeliest(scores);
  std::vector<Candidate> c = candidates(scores);
  if (c.empty()) return likeliest(scores);  // everything is ruled out
  keep_probable(c);
  float top = kRuledOut;
  for (const Candidate& one : c) top = std::max(top, one.score);
  std::vector<double> sums;
  double total = 0;
  for (const Candidate& one : c) sums.push_back(total += std::exp(double(one.score) - double(top)));
  const Philox4 bits = random.at(answer.ids.size() - answer.prompt);
  const double u = (double(bits[0]) * 0x1p32 + double(bits[1])) * 0x1p-64;  // [0, 1]
  const auto at = std::upper_bound(sums.begin(), sums.end(), u * total);
  return c[std::min(static_cast<std::size_t>(at - sums.begin()), c.size() - 1)].token;
}

}  // namespace ft
