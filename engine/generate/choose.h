// Which token comes next: transformers' logits processors, in transformers' order, on the host.
//   repetition_penalty    scores of tokens that occurred (prompt included) are divided by it where positive,
//                         else multiplied. Keskar et al., "CTRL", 2019
//   no_repeat_ngram_size  tokens that would complete a run that occurred are ruled out
//   min_new_tokens        end tokens are ruled out before it
// and with do_sample
//   temperature, top_k    divide; keep the k best and their equals
//   top_p                 keep the best whose probabilities sum to top_p. Holtzman et al. 2019
//   min_p                 keep those at least min_p times as likely as the best. Nguyen et al. 2024
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/random.h"
#include "engine/generate/config.h"

namespace ft {

class TokenChooser {
 public:
  TokenChooser(GenerationConfig config, std::vector<std::int32_t> end_tokens);

  // The token after `ids`, of which the first `prompt` were given. scores (V) are changed. `random` is of
  // this answer. UserError(Exit::numeric) when a score is not a number.
  std::int32_t choose(std::span<float> scores, std::span<const std::int32_t> ids, std::size_t prompt,
                      Random random) const;
  bool ends(std::int32_t token) const;
  const GenerationConfig& config() const { return config_; }

 private:
  struct Candidate {
    float score;
    std::int32_t token;
  };
  void process(std::span<float> scores, std::span<const std::int32_t> ids, std::size_t prompt) const;
  std::vector<Candidate> candidates(std::span<const float> scores) const;
  void keep_probable(std::vector<Candidate>&) const;

  GenerationConfig config_;
  std::vector<std::int32_t> end_tokens_;
};

}  // namespace ft
