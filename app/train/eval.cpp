#include "app/train/eval.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/answers/asking.h"
#include "app/answers/predictions.h"
#include "app/rollouts/answer_test.h"
#include "app/run/run.h"
#include "app/screen/format.h"
#include "app/screen/run_text.h"
#include "engine/files/json.h"
#include "engine/train/trainer.h"

namespace ft {
namespace {

// Prints a few answers, then how many were right.
void print_answers(const std::vector<Answer>& answers, std::int64_t right) {
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, answers.size()); ++i) {
    const Answer& a = answers[i];
    std::printf("  %s -> %s%s\n", show::one_line(a.question).c_str(),
                a.given.empty() ? "(empty answer)" : show::one_line(a.given).c_str(),
                a.right() ? "" : (" (expected " + show::one_line(a.expected) + ")").c_str());
  }
  std::printf("%lld of %zu answers right (%s)\n", static_cast<long long>(right), answers.size(),
              show::percent(static_cast<double>(right), static_cast<double>(answers.size())).c_str());
}

void require_answerable(const Run& run) {
  if (run.config.objective.compares())
    throw UserError(Exit::config, "--answers: an objective that compares answers has no single right answer");
  if (!run.data.tokenizer)
    throw UserError(Exit::config, "--answers: the data is tokens already, so there is no text to answer");
}

// The figures of an evaluation.
struct Result {
  Evaluated loss;
  Measures measures;
  std::vector<Answer> answers;
  std::int64_t count = 0;   // number of tokens, rows or answers in the loss's mean
  bool perplexity = false;  // true: the loss has a perplexity
  bool rows = false;        // true: the loss is a mean over rows, not tokens
  std::int64_t right() const { return std::ranges::count_if(answers, &Answer::right); }
};

void print_json(const Result& r, bool asked) {
  Json row = {{"eval_loss", finite_or_null(r.loss.loss)}};
  if (r.perplexity) row["perplexity"] = finite_or_null(std::exp(r.loss.loss));
  row[r.rows ? "eval_rows" : "eval_tokens"] = r.count;
  for (const auto& [name, value] : r.measures) row["eval_" + name] = finite_or_null(value);
  if (asked) {
    row["answers"] = r.answers.size();
    row["answers_right"] = r.right();
  }
  std::printf("%s\n", json_text(row, -1).c_str());
}

void print_text(const Result& r, bool asked) {
  std::printf("eval loss %.6f   ", r.loss.loss);
  if (r.perplexity) std::printf("perplexity %.4f   ", std::exp(r.loss.loss));
  std::printf("%lld %s%s\n", static_cast<long long>(r.count), r.rows ? "rows" : "target tokens",
              measures_text(r.measures).c_str());
  if (asked) print_answers(r.answers, r.right());
}

}  // namespace

Exit eval(const EvalArgs& args) {
  Run run(load_config(args.config, args.settings()), {.work = Work::evaluate, .adapter = args.adapter});
  const RunConfig& config = run.config;
  const BuiltData& data = run.data;
  Screen screen(Screen::standard_error(run.progress()));
  run.build(screen);
  if (args.answers > 0) require_answerable(run);
  const AnswerTest ask(data.eval->data(), run.built.made.info, args.answers,
                       config.training.per_device_eval_batch_size);
  const auto predictions = make_predictions(config, run.built, data);
  if (args.answers > 0) run.request().generation.push_back(ask.shape());
  run.plan();
  Engine& engine = run.start();
  Result result;
  result.perplexity = run.objective.objective->is_cross_entropy();
  result.rows = config.objective.compares();
  Working working(screen, "evaluating", "batches");
  result.loss = evaluate(run.pass(), *run.objective.objective, *data.held_out(),
                         [&](auto a, auto b) { working(a, b); });
  Working answering(screen, "answering", "prompts");
  const auto answered = [&](auto a, auto b) { answering(a, b); };
  if (args.answers > 0)
    result.answers = ask.run(
        engine.context, engine.store, run.built.model(), *data.tokenizer,
        end_tokens_of_rows(run.built.folder, config, *data.tokenizer, data.loaded.eval_counts.usual()),
        answered);
  result.measures = result.loss.columns;
  if (predictions)
    for (const auto& measure : predictions->run(engine.context, engine.store, answered))
      result.measures.push_back(measure);
  screen.clear();  // the result goes to stdout, perhaps the same terminal
  if (!run.ranks.root()) return Exit::done;
  result.count = data.generated_eval ? data.generated_eval->answers() : result.loss.targets;
  (args.json ? print_json : print_text)(result, args.answers > 0);
  return Exit::done;
}

}  // namespace ft
