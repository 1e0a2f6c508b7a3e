// evaluation.predict_with_generate: answers to the held-out prompts, scored at every evaluation, and written
// next to the result of a run as Hugging Face's run_translation.py does.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/rollouts/answer_test.h"

namespace ft {

class Predictions {
 public:
  // Predictions for data.eval. UserError if there is no tokenizer, or settings do not fit the model.
  Predictions(const RunConfig&, const BuiltModel&, const BuiltData&);

  // All ranks call it together, each answers a part of the prompts, and all get the measures of all.
  Measures run(const Ctx&, ParameterStore&, const AnswerTest::Progress&);

  // The first few answers before training, for the report; all ranks call it together. A run that is resumed
  // takes them from samples.json, which the root writes.
  void answer_before(const Ctx&, ParameterStore&, bool resumed, bool root);

  // generated_predictions.txt, a line each, and predict_results.json: the measures and `loss` of the last run
  // with predict_ before their names, and what it took. samples.json: answers before and after.
  // Into the run's folder.
  void write(double loss, double seconds, std::int64_t batches) const;
  // The first prompts' answers before training and in the end, for the screen.
  std::vector<std::string> before_and_after() const;

 private:
  void write_samples(bool ended) const;

  const BuiltModel& built_;
  std::string folder_;
  std::vector<Metric> metrics_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::int32_t> end_tokens_;
  AnswerTest test_;
  std::vector<Answer> answers_;
  std::vector<std::string> before_;  // of the first prompts
  Measures measures_;
};

// Null without predict_with_generate.
std::unique_ptr<Predictions> make_predictions(const RunConfig&, const BuiltModel&, const BuiltData&);

}  // namespace ft
