// evaluation.predict_with_generate: answers the held-out prompts and scores the answers at every evaluation.
// Writes them next to the run's result, as Hugging Face's run_translation.py does.
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
  // Prepares predictions for data.eval. Throws UserError (input) if there is no tokenizer, (config) if
  // settings do not fit the model.
  Predictions(const RunConfig&, const BuiltModel&, const BuiltData&);

  // Answers the prompts, split over the ranks. All ranks call it together and get the measures of all
  // answers. The root keeps the first few in samples.json.
  Measures run(const Ctx&, ParameterStore&, const AnswerTest::Progress&);

  // Keeps the first few answers before training, for the report. All ranks call it together, before run(). A
  // resumed run reads them from samples.json instead, which the root wrote.
  void answer_before(const Ctx&, ParameterStore&, bool resumed, bool root);

  // Writes the last answers into the run's folder: generated_predictions.txt has one a line;
  // predict_results.json has the measures, `loss`, time and speed under names that begin with predict_;
  // samples.json has answers before training and the last ones.
  void write(double loss, double seconds, std::int64_t batches) const;
  // Returns the first prompts' answers before and after training, for the screen.
  std::vector<std::string> before_and_after() const;

 private:
  void write_samples(bool trained) const;

  const BuiltModel& built_;
  std::string folder_;
  std::vector<Metric> metrics_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::int32_t> end_tokens_;
  AnswerTest test_;
  std::vector<Answer> answers_;
  std::vector<std::string> before_;  // answers to the first prompts before training
  Measures measures_;
  bool root_ = false;
};

// Returns null without evaluation.predict_with_generate.
std::unique_ptr<Predictions> make_predictions(const RunConfig&, const BuiltModel&, const BuiltData&);

}  // namespace ft
