// Choice of the next token: transformers' logits processors, in transformers' order, on the host.
//   repetition_penalty    divides positive scores of tokens that occurred (prompt included) by it and
//   multiplies
//                         negative ones. Keskar et al., "CTRL", 2019
//   no_repeat_ngram_size  rules out tokens that would complete a run of this many tokens that occurred
//   min_new_tokens        rules out end tokens before this many new tokens; if unset,
//   min_length            rules them out before this length, prompt included
//   forced_bos_token_id   the only token that may come first, after a decoder's start token
//   forced_eos_token_id   the only token that may come last
// and with do_sample
//   temperature, top_k    divide the scores by temperature; keep the k best and those equal to the k-th
//   top_p                 keep the best whose probabilities sum to top_p. Holtzman et al. 2019
//   min_p                 keep those at least min_p times as likely as the best. Nguyen et al. 2024
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/random.h"
#include "engine/generate/config.h"

namespace ft {

// An unfinished answer.
struct AnswerSoFar {
  std::span<const std::int32_t> ids;
  std::size_t prompt;  // number of ids in the prompt, which come first
  std::size_t most;    // ids at the maximal length
};

class TokenChooser {
 public:
  TokenChooser(GenerationConfig config, std::vector<std::int32_t> end_tokens);

  // Returns the next token. Changes scores (V). `random`: this answer's random numbers. Throws UserError
  // (numeric) if a score is NaN.
  std::int32_t choose(std::span<float> scores, const AnswerSoFar&, Random random) const;
  // The steps of choose() that a beam search uses. Scores may be log probabilities.
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
