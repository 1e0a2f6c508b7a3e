// Hugging Face's GenerationConfig settings under `generation`, and the number of answers computed at once.
// computed at once.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/rules.h"

namespace ft {

// When a beam search stops, in transformers' words. See beam_search.h.
enum class EarlyStopping : std::uint8_t { by_estimate, at_enough, never };
constexpr auto words(EarlyStopping) {
  using enum EarlyStopping;
  return to_words<EarlyStopping>({{by_estimate, "false"}, {at_enough, "true"}, {never, "never"}});
}

struct GenerationConfig {
  std::int64_t max_new_tokens = 256;
  std::optional<std::int64_t> max_length;
  bool do_sample = false;
  std::int64_t num_beams = 1;
  double temperature = 1;
  std::int64_t top_k = 50;
  double top_p = 1;
  std::optional<double> min_p;
  double repetition_penalty = 1;
  double length_penalty = 1;
  std::int64_t min_new_tokens = 0;
  std::int64_t min_length = 0;
  std::int64_t no_repeat_ngram_size = 0;
  EarlyStopping early_stopping = EarlyStopping::by_estimate;
  std::optional<std::vector<std::string>> stop_strings;
  std::optional<std::int64_t> forced_bos_token_id, forced_eos_token_id;
  std::int64_t seed = 42;
  std::int64_t batch_size = 8;
  bool both_lengths = false;  // not a setting: max_new_tokens was given beside max_length, so both hold

  // Returns the most new tokens after a prompt of this length. Below 1: the prompt is too long.
  std::int64_t most(std::size_t prompt) const {
    constexpr std::int64_t kMostTokens = (std::int64_t{1} << 31) - 1;  // more than any memory would hold
    const std::int64_t room = max_length ? *max_length - static_cast<std::int64_t>(prompt) : kMostTokens;
    return std::min(room, max_length && !both_lengths ? kMostTokens : max_new_tokens);
  }

  void fields(auto& f) {
    f("max_new_tokens", max_new_tokens, "Longest answer, in tokens.", at_least(1));
    f("max_length", max_length, "Instead of max_new_tokens: longest prompt and answer together.",
      at_least(1));
    f("do_sample", do_sample, "Sample tokens instead of taking the likeliest.");
    f("num_beams", num_beams, "Number of beams; above 1: beam search.", at_least(1), at_most(1024));
    f("temperature", temperature, "Sampling: above 1 flattens the distribution, below 1 sharpens it.",
      above(0));
    f("top_k", top_k, "Sampling: only from the k likeliest tokens; 0: from all.", at_least(0));
    f("top_p", top_p, "Sampling: only from the likeliest tokens that make up this probability.", above(0),
      at_most(1));
    f("min_p", min_p, "Sampling: only from tokens at least this likely, relative to the likeliest.",
      at_least(0), at_most(1));
    f("repetition_penalty", repetition_penalty, "Above 1: tokens that already occurred become less likely.",
      above(0));
    f("length_penalty", length_penalty, "Beam search: above 0 prefers longer answers.");
    f("min_new_tokens", min_new_tokens, "Shortest answer, in tokens.", at_least(0));
    f("min_length", min_length, "Instead of min_new_tokens: shortest prompt and answer together.",
      at_least(0));
    f("no_repeat_ngram_size", no_repeat_ngram_size,
      "Length of token sequences that may not occur twice; 0: off.", at_least(0));
    f("early_stopping", early_stopping, "Beam search: condition for its end, as in transformers.");
    f("stop_strings", stop_strings, "Strings that end an answer.");
    f("forced_bos_token_id", forced_bos_token_id, "Encoder-decoders: first token of every answer.",
      at_least(0));
    f("forced_eos_token_id", forced_eos_token_id, "Last token of an answer that reaches its longest length.",
      at_least(0));
    f("seed", seed, "Sampling: seed of the random number generator.", at_least(0));
    f("batch_size", batch_size, "Answers computed at once; the answers do not depend on it.", at_least(1),
      at_most(1024));
  }
};

}  // namespace ft
