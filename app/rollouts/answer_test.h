// The model's answers to the prompts of a dataset, beside the expected answers. They show how well a model
// has learnt, and feed the metrics of evaluation.predict_with_generate.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "data/rows/dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/generate/config.h"
#include "engine/generate/generator.h"
#include "engine/train/config.h"
#include "engine/train/reports/report.h"
#include "models/registry.h"

namespace ft {

struct Answer {
  std::string prompt, expected, given;
  std::string marked;       // the prompt with the tokens that mark roles
  std::string question;     // the last turn of `prompt`; a prompt without turns is one question
  std::int64_t tokens = 0;  // generated tokens, the end token included
  bool right() const { return expected == given; }  // exactly
};

// Returns the question of a conversation: the last text between special tokens that is more than a role's
// name. Leaves out the system text.
std::string question_of(std::span<const std::int32_t> prompt, const Tokenizer&);

// Asks a model the prompts of a dataset. A sample's prompt is everything before its first trained token. The
// expected answer is the trained tokens that follow, up to the next untrained one: in a conversation, the
// first answer. With an encoder-decoder, prompt and expected answer are source and target.
class AnswerTest {
 public:
  // Takes the first `count` samples, or all; `at_once` prompts are answered at a time. `settings` limits an
  // answer's length. Without `settings`, prompt and answer together are at most as long as the longest
  // sample, and decoding is greedy.
  AnswerTest(const Dataset& data, const ModelInfo&, std::int64_t count, std::int64_t at_once);
  AnswerTest(const Dataset& data, const ModelInfo&, std::int64_t at_once, const GenerationConfig& settings);

  // Returns a test of the first `count` prompts only.
  AnswerTest first(std::size_t count) const;
  std::size_t size() const { return prompts_.size(); }

  // Cache sizes that the plan of the run must include.
  const GenerationShape& shape() const { return shape_; }
  using Progress = std::function<void(std::int64_t done, std::int64_t of)>;
  // Answers the prompts, split over the ranks; every rank returns all answers. `progress` counts only this
  // rank's prompts.
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

// Returns the text metrics among `metrics` (bleu and chrf: 0 to 100; rouge1, rouge2, rougeL, rougeLsum and
// exact_match: 0 to 1) and gen_len, the mean number of generated tokens. Ignores white space around texts.
Measures measure(const std::vector<Answer>& answers, const std::vector<Metric>& metrics);

}  // namespace ft
