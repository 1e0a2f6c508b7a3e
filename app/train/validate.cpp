#include "app/train/validate.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/answers/predictions.h"
#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/assembly/built_objective.h"
#include "app/assembly/sequence_parallel.h"
#include "app/config/config.h"
#include "app/deepspeed/report.h"
#include "app/plan/planned.h"
#include "app/ranks/ranks.h"
#include "app/rollouts/reward.h"
#include "app/screen/screen.h"
#include "app/train/run_folder.h"
#include "engine/files/json.h"
#include "engine/files/near_path.h"
#include "engine/train/trainer.h"

namespace ft {
namespace {

void check_folder(const std::string& path, const std::string& setting) {
  std::error_code error;
  if (is_directory(std::filesystem::path(path), error)) return;
  const bool there = exists(std::filesystem::path(path), error);
  throw UserError(Exit::config, str(setting, ": ", printable(path),
                                    there ? " is not a folder" : " does not exist" + hint_about_path(path)));
}

// Fills in the run's numbers of steps in the report on DeepSpeed's file. Throws UserError (config) if the
// file has other numbers.
void check_steps(const ReportedConfig& given, const BuiltData& data, int ranks) {
  if (!given.deepspeed || !deepspeed::needs_steps(*given.deepspeed)) return;
  const TrainingConfig& t = given.config.training;
  const std::int64_t steps = length_of(t, data.batches(), ranks).total_steps;
  deepspeed::settle_steps(*given.deepspeed, steps, t.warmup(steps));
}

void print_report(const deepspeed::Report& report, bool json) {
  if (json) {
    std::cout << json_text(as_json(report)) << "\n";
    return;
  }
  Screen screen(Screen::standard_output());
  for (const std::string& line : as_lines(report, true)) screen.line(line, 4);
}

// Builds the model, objective and data as a run does, and plans its memory. Returns warnings.
std::vector<std::string> check(const ReportedConfig& given, Screen& screen) {
  const RunConfig& c = given.config;
  const int ranks = grid_of(c.distributed).data;
  require_place(c);
  check_folder(c.model.folder(), "model.model_name_or_path");
  check_folder(c.model.tokenizer(), "model.tokenizer_name_or_path");
  if (c.lora.adapter_name_or_path) check_folder(*c.lora.adapter_name_or_path, "lora.adapter_name_or_path");
  const BuiltModel built = build_model(c, Weights::check);
  require_shareable(c, built.model());
  const BuiltObjective objective = build_objective(c, built, Weights::check);
  const BuiltData data = read_data(c, built, ranks, screen);
  for (const auto* answers : {&data.generated, &data.generated_eval})
    if (*answers) require_answers(c.objective, (*answers)->prompts());
  check_steps(given, data, ranks);
  for (const std::string& note : data.loaded.notes) screen.line("note: " + note);
  make_predictions(c, built, data);
  planned(c, &data, room_of(c));
  return built.warnings;
}

}  // namespace

Exit validate(const ValidateArgs& args) {
  const auto refuse = [](const UserError& e) { throw UserError(Exit::config, e.what()); };
  try {
    const ReportedConfig given = load_reported(args.config, args.settings(), {.trains = true});
    Screen screen(Screen::standard_error());
    for (const std::string& text : check(given, screen)) screen.line("warning: " + text);
    if (given.deepspeed || args.json)
      print_report(given.deepspeed ? *given.deepspeed : deepspeed::Report{}, args.json);
  } catch (const deepspeed::Refused& e) {
    print_report(e.report, args.json);
    refuse(e);
  } catch (const UserError& e) {
    refuse(e);
  }
  if (!args.json) std::cout << printable(args.config) << " is fine\n";
  return Exit::done;
}

}  // namespace ft
