// Which token comes next: transformers' logits processors, in transformers' order, on the host.
//   repetition_penalty    scores of tokens that occurred (prompt included) are divided by it where positive,
//                         else multiplied. Keskar et al., "CTRL", 2019
//   no_repeat_ngram_size  tokens that would complete a run that occurred are ruled out
//   min_new_tokens        end tokens are ruled out before it; without it
//   min_length            the same, the prompt counted
//   forced_bos_token_id   the only one that may come first, after a decoder's start token
//   forced_eos_token_id   the only one that may come last
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

// An answer under way.
struct AnswerSoFar {
  std::span<const std::int32_t> ids;
  std::size_t prompt;  // this many of them were given
  std::size_t most;    // ids at the end
};

class TokenChooser {
 public:
  TokenChooser(GenerationConfig config, std::vector<std::int32_t> end_tokens);

  // The next token. scores (V) are changed. `random` is of this answer. UserError(Exit::numeric) when a score
  // is not a number.
  std::int32_t choose(std::span<float> scores, const AnswerSoFar&, Random random) const;
  // What it is made of: what a search needs of it. Scores may be log probabilities.
  static void require_numbers(std::span<const float> scores);
  void process(std::span<float> scores, const AnswerSoFar&) const;

  bool ends(std::int32_t token) const;
  const std::vector<std::int32_t>& end_tokens() const { return end_tokens_; }
  const GenerationConfig& config() const { return config_; }

 private:
  struct Candidate {
    float score;
    std::int32_t token;
  };
  std::vector<Candidate> candidates(std::span<const float> scores) const;
  void keep_probable(std::vector<Candidate>&) const;

  GenerationConfig config_;
  std::vector<std::int32_t> end_tokens_;
};

}  // namespace ft
