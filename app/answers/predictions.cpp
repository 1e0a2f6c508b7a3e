#include "app/answers/predictions.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/answers/asking.h"
#include "app/answers/generation.h"
#include "app/screen/format.h"
#include "data/files/utf8.h"
#include "data/tokenizers/new_tokens.h"
#include "engine/files/file.h"
#include "engine/files/json.h"

namespace ft {

Predictions::Predictions(const RunConfig& config, const BuiltModel& built, const BuiltData& data)
    : built_(built),
      folder_(config.training.output_dir),
      metrics_(config.evaluation.text_metrics()),
      tokenizer_(make_tokenizer(config.model.tokenizer(), new_tokens(config.data))),
      end_tokens_(end_tokens_of_rows(built.folder, config, *tokenizer_, data.loaded.eval_counts.usual())),
      test_(data.eval->data(), built.made.info, config.training.per_device_eval_batch_size,
            config.generation) {
  check_forced_tokens(config.generation, built.model().vocab_size());
}

Measures Predictions::run(const Ctx& context, ParameterStore& store, const AnswerTest::Progress& progress) {
  answers_ = test_.run(context, store, built_.model(), *tokenizer_, end_tokens_, progress);
  measures_ = measure(answers_, metrics_);
  if (!root_ || before_.empty()) return measures_;
  try {
    write_samples(true);
  } catch (const UserError&) {
    // A full disk does not end the run here: the next evaluation and write() try again.
  }
  return measures_;
}

void Predictions::answer_before(const Ctx& context, ParameterStore& store, bool resumed, bool root) {
  constexpr std::size_t kShown = 8;
  root_ = root;
  const std::string file = join_path(folder_, "samples.json");
  if (resumed) {
    if (!root || !path_exists(file)) return;
    for (const Json& s : read_json(file))
      before_.push_back(s.is_object() && s.contains("before") && s["before"].is_string()
                            ? s["before"].get<std::string>()
                            : "");
    return;
  }
  answers_ = test_.first(kShown).run(context, store, built_.model(), *tokenizer_, end_tokens_, {});
  for (const Answer& a : answers_) before_.push_back(a.given);
  if (root) write_samples(false);
}

namespace {

constexpr int kTextWidth = 100;

// Returns the text on one line, cut to kTextWidth columns.
std::string excerpt(std::string_view text) {
  const std::string line = show::one_line(strip_left(strip_right(text)));
  return line.empty() ? "(empty answer)" : show::fit(line, kTextWidth);
}

}  // namespace

std::vector<std::string> Predictions::before_and_after() const {
  constexpr std::size_t kShown = 2;
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < std::min({kShown, before_.size(), answers_.size()}); ++i)
    for (const auto& [label, text] : {std::pair{"prompt  ", std::string_view(answers_[i].question)},
                                      {"  before  ", before_[i]},
                                      {"  after   ", answers_[i].given}})
      lines.push_back(label + excerpt(text));
  return lines;
}

void Predictions::write_samples(bool trained) const {
  Json all = Json::array();
  for (std::size_t i = 0; i < std::min(before_.size(), answers_.size()); ++i)
    all.push_back({{"prompt", answers_[i].marked},
                   {"expected", answers_[i].expected},
                   {"before", before_[i]},
                   {"after", trained ? Json(answers_[i].given) : Json()}});
  write_file(join_path(folder_, "samples.json"), json_text(all) + "\n");
}

void Predictions::write(double loss, double seconds, std::int64_t batches) const {
  std::string lines;
  for (const Answer& a : answers_) {
    std::string line(strip_left(strip_right(a.given)));
    std::replace(line.begin(), line.end(), '\n', ' ');
    lines += line + "\n";
  }
  write_file(join_path(folder_, "generated_predictions.txt"), lines);
  const auto a_second = [&](double count) { return count / std::max(seconds, 1e-9); };
  const auto samples = static_cast<double>(answers_.size());
  Json results = {{"predict_loss", finite_or_null(loss)},
                  {"predict_samples", answers_.size()},
                  {"predict_runtime", seconds},
                  {"predict_samples_per_second", a_second(samples)},
                  {"predict_steps_per_second", a_second(static_cast<double>(batches))}};
  for (const auto& [name, value] : measures_) results["predict_" + name] = finite_or_null(value);
  if (!before_.empty()) write_samples(true);
  write_file(join_path(folder_, "predict_results.json"), json_text(results, 4) + "\n");
}

std::unique_ptr<Predictions> make_predictions(const RunConfig& config, const BuiltModel& built,
                                              const BuiltData& data) {
  if (!config.evaluation.predict_with_generate) return nullptr;
  return std::make_unique<Predictions>(config, built, data);
}

}  // namespace ft
