// Micro-batches of examples whose answers are replaced by answers that models give while the run trains, as
// in generalized knowledge distillation (Agarwal et al. 2024). A draw for each micro-batch decides who
// answers it: the policy, or else the teacher or the data. A sequence's prompt is everything before its first
// target. Answers are given anew at every step.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "engine/core/batch.h"

namespace ft {

enum class Author : std::uint8_t { data, policy, teacher };

struct OwnAnswersOptions {
  double share = 1;            // probability that the policy answers a micro-batch
  Author rest = Author::data;  // of the other micro-batches: data or teacher
  std::int64_t rows = 1;       // most sequences of a micro-batch
  std::int64_t step = 1;       // micro-batches of an optimizer step, on all ranks together
  std::int64_t answer = 1;     // longest answer, in tokens
  std::int64_t longest = 2;    // longest sequence, with its answer
  std::uint64_t seed = 0;
};

// A prompt to be answered with at most `most` tokens. number: unique in the run.
struct OwnPrompt {
  std::vector<std::int32_t> prompt;
  std::int64_t most = 1, number = 0;
};

class OwnAnswers final : public BatchSource {
 public:
  // Keeps a reference to the source of the examples.
  OwnAnswers(const BatchSource&, const OwnAnswersOptions&);

  const OwnAnswersOptions& options() const { return options_; }
  std::int64_t longest_prompt() const { return longest_prompt_; }
  Author author(std::int64_t epoch, std::int64_t i) const;
  // Returns the questions of an optimizer step (from 0) to the policy or to the teacher.
  std::vector<OwnPrompt> questions(std::int64_t step, Author) const;
  // Sets the answers to all questions of the step that is trained next, in the order of the questions.
  using Tokens = std::vector<std::vector<std::int32_t>>;
  void put(std::int64_t step, const Tokens& policys, const Tokens& teachers);

  std::int64_t batches_per_epoch() const override { return from_.batches_per_epoch(); }
  // Require that the answers of the batch's step were put.
  Batch batch(std::int64_t epoch, std::int64_t i) const override;
  BatchShape shape(std::int64_t epoch, std::int64_t i) const override;
  // Returns the largest possible shape of micro-batches with answers that are given.
  BatchShape largest() const;

 private:
  struct Place {
    std::int64_t epoch, begin, end;  // micro-batches of a step
  };
  Place place_of(std::int64_t step) const;
  const Batch& given(std::int64_t epoch, std::int64_t i) const;

  const BatchSource& from_;
  OwnAnswersOptions options_;
  std::int64_t longest_prompt_ = 1;
  std::int64_t longest_unanswered_ = 0;  // tokens of the longest sequence without targets, which stays
  std::int64_t epoch_ = -1;              // of given_
  std::map<std::int64_t, Batch> given_;  // by index in the epoch: the current step's batches with new answers
};

}  // namespace ft
