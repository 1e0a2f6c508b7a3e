// Answers to the prompts of a dataset, next to the expected ones: a quick look at what a model has learnt,
// and the input of evaluation.predict_with_generate's metrics.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer.h"
#include "engine/generate/config.h"
#include "engine/generate/generator.h"
#include "engine/train/config.h"
#include "engine/train/report.h"
#include "models/registry.h"

namespace ft {

struct Answer {
  std::string prompt, expected, given;
  std::string marked;                               // the prompt with the tokens that mark roles
  std::string question;                             // its last turn; of a plain prompt all of it
  std::int64_t tokens = 0;                          // new ones, the end token counted
  bool right() const { return expected == given; }  // to the letter
};

// The last part of a prompt between special tokens that is more than the name of a role: the question of a
// conversation, without its system text.
std::string question_of(std::span<const std::int32_t> prompt, const Tokenizer&);

// A sample's prompt is everything before its first trained token. The expected answer is the trained tokens
// that follow, up to the next untrained one: in a conversation, the first answer. For an encoder-decoder they
// are source and target.
class AnswerTest {
 public:
  // The first `count` samples, `at_once` at a time. The settings limit an answer's length; without settings,
  // prompt and answer are at most as long as the longest sample, and decoding is greedy.
  AnswerTest(const Dataset& data, const ModelInfo&, std::int64_t count, std::int64_t at_once);
  AnswerTest(const Dataset& data, const ModelInfo&, std::int64_t at_once, const GenerationConfig& settings);

  // The same of the first `count` prompts only.
  AnswerTest first(std::size_t count) const;
  std::size_t size() const { return prompts_.size(); }

  // What the plan of the run must allow for.
  const GenerationShape& shape() const { return shape_; }
  using Progress = std::function<void(std::int64_t done, std::int64_t of)>;
  // Ranks share the prompts out, and in the end each knows all answers. Progress is this rank's own.
  std::vector<Answer> run(const Ctx&, ParameterStore&, Model&, const Tokenizer&,
                          std::vector<std::int32_t> end_tokens, const Progress&) const;

 private:
  using Most = std::function<std::int64_t(std::size_t prompt)>;
  void add(const Dataset& data, const ModelInfo&, std::int64_t i, const Most&);

  GenerationConfig settings_;
  std::vector<Prompt> prompts_;
  std::vector<std::vector<std::int32_t>> expected_;
  GenerationShape shape_;
};

// The figures of evaluation.metrics that are taken on text (bleu and chrf 0 to 100; rouge1, rouge2, rougeL,
// rougeLsum and exact_match 0 to 1), and gen_len, the mean of new tokens. White space around texts does not
// count.
Measures measure(const std::vector<Answer>& answers, const std::vector<Metric>& metrics);

}  // namespace ft
