// Rewards for the answers that a run generates.
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
  std::int64_t number = 0;            // unique in the run
  std::string prompt, completion;     // texts without special tokens; empty without a tokenizer
  std::span<const std::int32_t> ids;  // the completion's, with its end token
  const Json& row;                    // the prompt's row, with its `answer`
};

class Reward {
 public:
  virtual ~Reward() = default;
  virtual std::string name() const = 0;
  // Returns a reward for each answer; NaN: no reward. Throws UserError, with the kind that the reward names,
  // if it fails.
  virtual std::vector<double> rewards(std::span<const RewardedAnswer>) = 0;
  // Allows it to write into the run's folder from now on.
  virtual void log_to(const std::string& /*folder*/, Report& /*warned*/) {}
};

// Returns the rewards that objective.reward_funcs names (checks.cpp).
//   exact_match  1 if the answer equals the row's, except for white space around them
//   number       1 if the last number in it equals the last number in the row's answer
//   regex        1 if objective.reward_regex matches somewhere
//   length       0 up to max_completion_length - soft_punish_cache tokens, then falls to -1 (DAPO)
// Throws UserError (config) if the pattern cannot be read.
std::vector<std::unique_ptr<Reward>> make_checks(const ObjectiveConfig&);
// Throws UserError (input) if a row lacks the answer that a reward needs for comparison.
void require_answers(const ObjectiveConfig&, const Dataset& prompts);

// Returns the last number in a text; 1,234.5 and -7 are numbers; NaN: there is none.
double last_number(const std::string& text);

}  // namespace ft
