#include "app/train/validate.h"

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/assembly/sequence_parallel.h"
#include "app/config/config.h"
#include "app/deepspeed/report.h"
#include "app/ranks/ranks.h"
#include "app/screen/format.h"
#include "app/screen/screen.h"
#include "data/files.h"
#include "engine/io/json.h"
#include "engine/train/trainer.h"

namespace ft {
namespace {

void check_folder(const std::string& path, const std::string& setting) {
  std::error_code error;
  if (is_directory(std::filesystem::path(path), error)) return;
  const bool there = exists(std::filesystem::path(path), error);
  throw UserError(Exit::config,
                  str(setting, ": ", printable(path), there ? " is not a folder" : " does not exist"));
}

void check_data(const DataConfig& data) {
  const auto check = [](const std::vector<DatasetConfig>& list, const std::string& setting) {
    for (std::size_t i = 0; i < list.size(); ++i)
      find_data_files(list[i], {.hub = hub_cache()}, str(setting, ".", i));
  };
  check(data.datasets, "data.datasets");
  check(data.eval_datasets, "data.eval_datasets");
}

// The steps that DeepSpeed's file is to agree with, for which the data is read.
void check_steps(const RunConfig& c) {
  if (!c.report || !deepspeed::needs_steps(*c.report)) return;
  const int ranks = grid_of(c.distributed).data;
  const BuiltData data = build_data(c, vocab_size_of(c), LoadPart::train_and_eval, {}, ranks);
  const std::int64_t steps = length_of(c.training, data.batches(), ranks).total_steps;
  deepspeed::settle_steps(*c.report, steps, c.training.warmup(steps));
}

void print_report(const deepspeed::Report& report, bool json) {
  if (json) {
    std::cout << json_text(as_json(report)) << "\n";
    return;
  }
  Screen screen(Screen::standard_output());
  for (const std::string& line : as_lines(report, true)) screen.line(line, 4);
}

// Returns what is odd about the model and its adapter.
std::vector<std::string> check(const RunConfig& c) {
  grid_of(c.distributed);
  check_folder(c.model.folder(), "model.model_name_or_path");
  check_folder(c.model.tokenizer(), "model.tokenizer_name_or_path");
  if (c.lora.adapter_name_or_path) check_folder(*c.lora.adapter_name_or_path, "lora.adapter_name_or_path");
  const BuiltModel built = build_model(c, Weights::ignore);
  require_shareable(c, built.model());
  check_data(c.data);
  check_steps(c);
  return built.warnings;
}

}  // namespace

Exit validate(const ValidateArgs& args) {
  const auto refuse = [](const UserError& e) { throw UserError(Exit::config, e.what()); };
  try {
    const RunConfig config = load_config(args.config, args.settings(), {.trains = true});
    Screen screen(Screen::standard_error());
    for (const std::string& text : check(config)) screen.line("warning: " + text);
    if (config.report || args.json)
      print_report(config.report ? *config.report : deepspeed::Report{}, args.json);
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
