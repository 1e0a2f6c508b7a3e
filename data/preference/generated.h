// Answers that the policy gives while it is trained: which prompts are answered when, and the micro-batches
// of the answers. The rows of `batches` micro-batches are answered at once, `group` answers to a prompt one
// behind another: a generation. Its micro-batches are trained on in their order, `uses` times, and then
// comes the next; prompts that do not fill one are left out of an epoch. All prompts of an evaluation are one
// generation.
#pragma once
#include <vector>

#include "data/rows/dataset.h"
#include "engine/core/batch.h"

namespace ft {

struct GeneratedOptions {
  std::int64_t group = 8;    // answers to one prompt
  std::int64_t rows = 1;     // answers of a micro-batch
  std::int64_t batches = 1;  // micro-batches of a generation, of all ranks
  std::int64_t step = 1;     // micro-batches of an optimizer step, of all ranks
  std::int64_t uses = 1;
  std::int64_t longest = 1;  // tokens of an answer
  bool whole = false;        // one generation of all prompts, whatever batches, step and uses say
  std::int64_t first = 0;    // the number of the first answer; others follow
  bool shuffle = false;
  std::uint64_t seed = 0;
};

// One of a generation's answers, as it is trained on.
struct GeneratedAnswer {
  std::vector<std::int32_t> ids;  // with the end token, where it has one
  float advantage = 0;
  bool trained = true;                // false: none of its tokens is a target
  std::vector<float> old_logps = {};  // of its tokens; empty: those of its first use
  std::vector<float> advantages = {}, values = {}, returns = {};  // of its tokens, for PPO: see Compared
};

class GeneratedAnswers final : public BatchSource {
 public:
  // UserError (exit 2) where groups do not fill a generation, or a generation no whole steps; (exit 3) where
  // the prompts do not fill one.
  GeneratedAnswers(Dataset prompts, const GeneratedOptions&);

  const Dataset& prompts() const { return prompts_; }
  const GeneratedOptions& options() const { return options_; }
  std::int64_t answers() const { return answers_; }  // of a generation
  // No other answer of the run has this number.
  std::int64_t number(std::int64_t generation, std::int64_t i) const {
    return options_.first + generation * answers_ + i;
  }
  // Optimizer steps with the same answers.
  std::int64_t steps() const { return options_.batches / options_.step * options_.uses; }
  // The generation that an optimizer step uses, and how many steps have used it before.
  std::int64_t generation_of(std::int64_t step) const { return step / steps(); }
  std::int64_t used(std::int64_t step) const { return step % steps(); }
  // The prompts of a generation's answers, by their places in prompts().
  std::vector<std::int64_t> places(std::int64_t generation) const;

  // The answers that a generation's steps are trained on from now on, in the order of places().
  void put(std::int64_t generation, std::vector<GeneratedAnswer>);
  std::int64_t generation() const { return generation_; }  // the one that is there; -1: none
  const std::vector<GeneratedAnswer>& given() const { return given_; }

  std::int64_t batches_per_epoch() const override { return generations_ * options_.uses * options_.batches; }
  Batch batch_of(std::int64_t i) const;  // the i-th micro-batch of the generation that is there
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;
  // The largest there can be.
  BatchShape largest() const;

 private:
  Dataset prompts_;
  GeneratedOptions options_;
  std::int64_t answers_ = 0;
  std::int64_t generations_ = 0, generation_ = -1;  // of an epoch; see generation()
  std::vector<GeneratedAnswer> given_;
  Dataset rows_;  // of these
};

}  // namespace ft
