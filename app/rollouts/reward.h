// What rewards the answers that a run gives itself.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/config/config.h"
#include "data/rows/dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/files/json.h"

namespace ft {

struct RewardedAnswer {
  std::int64_t number = 0;            // no other answer of the run has it
  std::string prompt, completion;     // as texts, without special tokens; empty where there is no tokenizer
  std::span<const std::int32_t> ids;  // of the completion, with its end token
  const Json& row;                    // the prompt's, with its `answer`
};

class Reward {
 public:
  virtual ~Reward() = default;
  virtual std::string name() const = 0;
  // A reward for each answer; NaN: it has none. UserError where they cannot be had.
  virtual std::vector<double> rewards(std::span<const RewardedAnswer>) = 0;
  // From here on it may write into the run's folder.
  virtual void log_to(const std::string& /*folder*/) {}
};

// Those that objective.reward_funcs names (checks.cpp).
//   exact_match  1 where the answer is the row's, white space around them aside
//   number       1 where the last number in it is the last one in the row's answer
//   regex        1 where objective.reward_regex matches somewhere
//   length       0 up to max_completion_length - soft_punish_cache tokens, then falling to -1 (DAPO)
// UserError (exit 2) for a pattern that cannot be read.
std::vector<std::unique_ptr<Reward>> make_checks(const ObjectiveConfig&);
// UserError (exit 3) for a row that does not say what they compare an answer with.
void require_answers(const ObjectiveConfig&, const Dataset& prompts);

// The last number in a text: 1,234.5 and -7 are numbers; NaN: there is none.
double last_number(const std::string& text);

}  // namespace ft
