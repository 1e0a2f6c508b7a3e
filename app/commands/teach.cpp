// ft teach.
#include "app/train/teach.h"

#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

Use teach_options(CLI::App& app) {
  const auto args = std::make_shared<TeachArgs>();
  add_run_options(app, *args);
  app.add_option("--model", args->model, "The teacher: a model folder, or an id in the hub's cache.")
      ->required()
      ->type_name("DIR");
  app.add_option("--top-k", args->top_k, "Number of likeliest tokens to keep at each target.")
      ->type_name("K")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("--load-in-4bit", args->load_in_4bit, "Hold the teacher's weights in 4 bits.");
  app.add_flag("--overwrite", args->overwrite, "Replace objective.teacher_file if it exists.");
  return {.run = [args] { return teach(*args); }};
}

}  // namespace

const Command kTeach{
    "teach", "Ask a teacher about a run's data, once, for objective.type=distill.",
    "  ft teach --config run.json --model models/large objective.teacher_file=teacher.safetensors\n"
    "  ft teach --config run.json --model models/large --load-in-4bit --top-k 32",
    teach_options};

}  // namespace ft::commands
