// Log probabilities of the possible next tokens, from the model's own scores: before temperature and
// everything else that changes the choice.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace ft {

struct TokenLogprob {
  std::int32_t token;
  float logprob;
};

// A token of a text, and the likeliest tokens at its place, best first.
struct ScoredToken {
  std::int32_t token = 0;
  bool scored = true;  // false: the first token of a text, for which the model has no score
  float logprob = 0;
  std::vector<TokenLogprob> top{};
};

class LogProbabilities {
 public:
  explicit LogProbabilities(std::span<const float> scores);
  ScoredToken of(std::int32_t token, std::size_t top) const;

 private:
  float logprob(std::size_t token) const;
  std::vector<float> scores_;
  double log_sum_ = 0;
};

}  // namespace ft
