// Answers that the policy gives while it is trained: schedules which prompts are answered when, and makes the
// micro-batches of the answers. A generation is a set of prompts that are answered at once: the rows of
// `batches` micro-batches, with `group` answers to a prompt one after another. Its micro-batches are trained
// on in their order, `uses` times; then the next generation follows. Prompts that do not fill a generation
// are left out of an epoch. An evaluation is one generation of all prompts.
#pragma once
#include <vector>

#include "data/rows/dataset.h"
#include "engine/core/batch.h"

namespace ft {

struct GeneratedOptions {
  std::int64_t group = 8;    // answers to one prompt
  std::int64_t rows = 1;     // answers in a micro-batch
  std::int64_t batches = 1;  // micro-batches of a generation, on all ranks together
  std::int64_t step = 1;     // micro-batches of an optimizer step, on all ranks together
  std::int64_t uses = 1;
  std::int64_t longest = 1;  // longest answer, in tokens
  bool whole = false;        // one generation has all prompts; batches, step and uses are ignored
  std::int64_t first = 0;    // number of the first answer; the others follow
  bool shuffle = false;
  std::uint64_t seed = 0;
};

// An answer of a generation, with the numbers that training needs.
struct GeneratedAnswer {
  std::vector<std::int32_t> ids;  // with the end token, if it ends with one
  float advantage = 0;
  bool trained = true;                                            // false: none of its tokens is a target
  std::vector<float> old_logps = {};                              // by token; empty: taken from the first use
  std::vector<float> advantages = {}, values = {}, returns = {};  // by token, for PPO: see Compared
  std::vector<float> weights = {};                                // by token: see Compared; empty: all are 1
};

class GeneratedAnswers final : public BatchSource {
 public:
  // Throws UserError (config) if groups do not fill a generation, or a generation is not a multiple of a
  // step. Throws UserError (input) if the prompts do not fill a generation.
  GeneratedAnswers(Dataset prompts, const GeneratedOptions&);

  const Dataset& prompts() const { return prompts_; }
  const GeneratedOptions& options() const { return options_; }
  std::int64_t answers() const { return answers_; }  // in a generation
  // Returns an answer's number, which is unique in the run.
  std::int64_t number(std::int64_t generation, std::int64_t i) const {
    return options_.first + generation * answers_ + i;
  }
  // Returns the number of optimizer steps that use the same answers.
  std::int64_t steps() const { return options_.batches / options_.step * options_.uses; }
  // Return the generation that an optimizer step uses, and the number of steps that used it before.
  std::int64_t generation_of(std::int64_t step) const { return step / steps(); }
  std::int64_t used(std::int64_t step) const { return step % steps(); }
  // Returns the prompt of each answer of a generation, as an index into prompts().
  std::vector<std::int64_t> places(std::int64_t generation) const;

  // Sets the answers that a generation's steps train on from now on, in the order of places().
  void put(std::int64_t generation, std::vector<GeneratedAnswer>);
  std::int64_t generation() const { return generation_; }  // the current one; -1: none
  const std::vector<GeneratedAnswer>& given() const { return given_; }

  std::int64_t batches_per_epoch() const override { return generations_ * options_.uses * options_.batches; }
  Batch batch_of(std::int64_t i) const;  // the i-th micro-batch of the current generation
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;
  // Returns the largest possible shape.
  BatchShape largest() const;

 private:
  Dataset prompts_;
  GeneratedOptions options_;
  std::int64_t answers_ = 0;
  std::int64_t generations_ = 0, generation_ = -1;  // generations of an epoch; see generation()
  std::vector<GeneratedAnswer> given_;
  Dataset rows_;  // holds the given answers
};

}  // namespace ft
