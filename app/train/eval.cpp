#include "app/train/eval.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/answers/answers.h"
#include "app/answers/asking.h"
#include "app/answers/generation.h"
#include "app/answers/predictions.h"
#include "app/assembly/built_data.h"
#include "app/assembly/engine.h"
#include "app/plan/request.h"
#include "app/plan/ways_out.h"
#include "app/ranks/ranks.h"
#include "app/rollouts/online.h"
#include "app/screen/format.h"
#include "app/screen/run_text.h"
#include "app/screen/screen.h"
#include "app/train/teach.h"
#include "engine/files/json.h"
#include "engine/ops/ops.h"
#include "engine/train/trainer.h"

namespace ft {
namespace {

// A few answers to look at, then how many were right.
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

void require_held_out(const EvalArgs& args, const RunConfig& config, const BuiltData& data) {
  if (!data.eval)
    throw UserError(
        Exit::config,
        "data.eval_datasets: there is nothing to evaluate on; name files there, or set data.val_set_size");
  if (args.answers > 0 && config.objective.compares())
    throw UserError(Exit::config, "--answers: there is no one right answer where answers are compared");
  if (args.answers > 0 && !data.tokenizer)
    throw UserError(Exit::config, "--answers: the data is tokens already, so there is no text to answer");
}

}  // namespace

Exit eval(const EvalArgs& args) {
  RunConfig config = load_config(args.config, args.settings());
  const RunConfig began = config;
  if (!args.adapter.empty()) {
    config.finetuning_type = FinetuningType::lora;
    config.lora = {};  // the adapter's own configuration holds
    config.lora.adapter_name_or_path = args.adapter;
  } else if (!config.lora.adapter_name_or_path) {
    config.finetuning_type = FinetuningType::full;  // the model alone
  }
  const Ranks ranks = find_ranks(config);
  Screen screen(Screen::standard_error(ranks.root() ? config.logging.progress : ProgressStyle::none));
  BuiltModel built = build_model(config, Weights::check, ranks.part());
  if (ranks.root()) show_warnings(screen, built);
  EachParameter freeze([](Parameter& p) { p.trainable = false; });
  built.model().visit(freeze);
  BuiltObjective objective = build_evaluated_objective(began, built);
  Working reading(screen, "reading data");
  BuiltData data =
      build_data(config, built.made.info.vocab_size, LoadPart::eval, [&](auto a, auto b) { reading(a, b); });
  if (ranks.root() && config.logging.progress != ProgressStyle::none)
    for (const std::string& text : data.loaded.notes) screen.line(text);
  require_held_out(args, config, data);
  const Dataset& held_out = data.eval->data();
  if (objective.taught) require_taught(*objective.taught, data);
  go_online(objective, config, built, data);
  const AnswerTest ask(held_out, built.made.info, args.answers, config.training.per_device_eval_batch_size);
  const auto predictions = make_predictions(config, built, data);

  auto ops = make_run_ops(config, ranks.gpu);
  auto comm = make_communicator(ranks, *ops, config);
  PlanRequest request = plan_request(config, built, objective, data, ops->workspace(), ranks.grid);
  request.states = no_states;
  if (args.answers > 0) request.generation.push_back(ask.shape());
  const Plan plan = plan_run(built.model(), request);
  require_memory(plan.memory, *ops, advice_on_memory(config, false), ranks.local_size);
  require_same(*comm, data.eval->data().tokens(), "the number of tokens in the data");
  Engine engine(std::move(ops), std::move(comm), built, request, plan, nullptr, &objective);
  Working working(screen, "evaluating", "batches");
  const Evaluated e = evaluate(engine.pass(built.model()), *objective.objective, *data.held_out(),
                               [&](auto a, auto b) { working(a, b); });
  std::vector<Answer> answers;
  Working answering(screen, "answering", "prompts");
  const auto answered = [&](auto a, auto b) { answering(a, b); };
  if (args.answers > 0)
    answers = ask.run(
        engine.context, engine.store, built.model(), *data.tokenizer,
        end_tokens_of_rows(built.folder, config, *data.tokenizer, data.loaded.eval_counts.usual()), answered);
  Measures measures = e.columns;
  if (predictions) measures = predictions->run(engine.context, engine.store, answered);
  screen.clear();  // what follows goes to stdout, perhaps the same terminal
  if (!ranks.root()) return Exit::done;
  const std::int64_t right =
      std::count_if(answers.begin(), answers.end(), [](const Answer& a) { return a.right(); });
  const bool perplexity = objective.objective->is_cross_entropy();
  const std::int64_t count = data.generated_eval ? data.generated_eval->answers() : e.targets;
  if (args.json) {
    Json row = {{"eval_loss", finite_or_null(e.loss)}};
    if (perplexity) row["perplexity"] = finite_or_null(std::exp(e.loss));
    row[config.objective.compares() ? "eval_rows" : "eval_tokens"] = count;
    for (const auto& [name, value] : measures) row["eval_" + name] = finite_or_null(value);
    if (args.answers > 0) {
      row["answers"] = answers.size();
      row["answers_right"] = right;
    }
    std::printf("%s\n", json_text(row, -1).c_str());
    return Exit::done;
  }
  std::printf("eval loss %.6f   ", e.loss);
  if (perplexity) std::printf("perplexity %.4f   ", std::exp(e.loss));
  std::printf("%lld %s%s\n", static_cast<long long>(count),
              config.objective.compares() ? "rows" : "target tokens", measures_text(measures).c_str());
  if (args.answers > 0) print_answers(answers, right);
  return Exit::done;
}

}  // namespace ft
