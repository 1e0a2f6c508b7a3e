// Settings of answers that an OpenAI-compatible server generates in place of the run, and the correction for
// the difference between the two programs' log-probabilities. TRL's names are in docs/preferences.md.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/rules.h"
#include "engine/train/objectives/kind.h"

namespace ft {

// Importance weights of answers from a server: see rollout_correction.h.
enum class RolloutCorrection : std::uint8_t {
  sequence_mask,
  sequence_truncate,
  token_mask,
  token_truncate,
  none
};
constexpr auto words(RolloutCorrection) {
  using enum RolloutCorrection;
  return to_words<RolloutCorrection>({{sequence_mask, "sequence_mask"},
                                      {sequence_truncate, "sequence_truncate"},
                                      {token_mask, "token_mask"},
                                      {token_truncate, "token_truncate"},
                                      {none, "none"}});
}

struct RolloutServerSettings {
  std::optional<std::string> rollout_server, rollout_server_model, rollout_server_key_file;
  std::optional<double> rollout_server_timeout;
  std::optional<std::int64_t> rollout_sync_steps;
  std::optional<bool> rollout_lookahead;
  std::optional<RolloutCorrection> rollout_correction;
  std::optional<double> rollout_correction_max, rollout_correction_min;

  // Returns the correction of a server's answers.
  RolloutCorrection correction() const {
    return rollout_server ? rollout_correction.value_or(RolloutCorrection::sequence_mask)
                          : RolloutCorrection::none;
  }
  // Returns true if answers are asked for while the generation before them is trained on.
  bool looks_ahead() const { return rollout_lookahead.value_or(false); }
  double server_timeout() const { return rollout_server_timeout.value_or(240); }

  void fields(auto& f) {
    f("rollout_server", rollout_server,
      "grpo, rloo, reinforce++: address of a server that generates the answers, such as "
      "http://127.0.0.1:8000: ft serve, vLLM or another with OpenAI's API; null: the run generates them.",
      not_empty());
    f("rollout_server_model", rollout_server_model,
      "grpo, rloo, reinforce++, rollout_server: the base model's name there; null: the first that the "
      "server lists.",
      not_empty());
    f("rollout_server_key_file", rollout_server_key_file,
      "grpo, rloo, reinforce++, rollout_server: file whose first line is the server's API key; null: it "
      "needs none.",
      not_empty());
    f("rollout_server_timeout", rollout_server_timeout,
      "grpo, rloo, reinforce++, rollout_server: most seconds for the answers of a generation, or for "
      "handing the adapter over, with all further attempts; null: 240.",
      above(0));
    f("rollout_sync_steps", rollout_sync_steps,
      "grpo, rloo, reinforce++, rollout_server: steps after which the server gets the adapter anew; null: "
      "1.",
      at_least(1));
    f("rollout_lookahead", rollout_lookahead,
      "grpo, rloo, reinforce++, rollout_server: ask for the answers of the next generation while this one "
      "is trained on, so that they are one generation old; null: false.");
    f("rollout_correction", rollout_correction,
      "grpo, rloo, reinforce++, rollout_server: importance weights for the difference between the server's "
      "probabilities and the run's: of answers or tokens, which are left out (mask) or cut (truncate) "
      "beyond rollout_correction_max; null: sequence_mask.");
    f("rollout_correction_max", rollout_correction_max,
      "grpo, rloo, reinforce++, rollout_server: largest importance weight; null: 3.", above(0));
    f("rollout_correction_min", rollout_correction_min,
      "grpo, rloo, reinforce++, rollout_server: least importance weight; null: 0.", at_least(0));
  }
};

// Checks rules between these settings and the others. by_answer: an action of the objective is a complete
// answer, so that tokens have no weights of their own.
void check_rollout_server(const ObjectiveConfig&, const Refuse&, bool by_answer = false);

}  // namespace ft
