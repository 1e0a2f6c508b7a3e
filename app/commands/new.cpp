// ft new.
#include "app/begin/new_run.h"
#include "app/commands/begin_options.h"
#include "app/commands/list.h"
#include "app/commands/run_options.h"

namespace ft::commands {
namespace {

Use new_options(CLI::App& app) {
  const auto args = std::make_shared<NewArgs>();
  add_begin_options(app, args->begin);
  app.add_option("--output", args->begin.output, "The file to write.")->type_name("FILE");
  add_overrides(app, args->overrides);
  app.add_flag("--overwrite", args->overwrite, "Replace the file.");
  return {.run = [args] { return new_run(*args); }};
}

}  // namespace

const Command kNew{"new",
                   "Write a run.json: asks for model, data and method, and chooses the other settings.",
                   "  ft new                                    asks\n"
                   "  ft new --model Qwen/Qwen3-0.6B --data chats.jsonl --lora --output run.json",
                   new_options};

}  // namespace ft::commands
