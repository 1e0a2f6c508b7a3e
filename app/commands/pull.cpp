// ft pull.
#include "app/hub/pull.h"

#include "app/commands/list.h"

namespace ft::commands {
namespace {

Use pull_options(CLI::App& app) {
  const auto args = std::make_shared<hub::PullArgs>();
  app.add_option("id", args->id, "The model's or data set's id, as on its page: org/name.")
      ->required()
      ->type_name("ID");
  app.add_flag("--dataset", args->dataset, "It is a data set; datasets/org/name says the same.");
  app.add_option("--revision", args->revision, "A branch, tag or commit.")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--include", args->patterns.include,
                 "Fetch the files that match, such as '*.gguf' or 'data/*', instead of those that ft needs; "
                 "may be repeated.")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  app.add_option("--exclude", args->patterns.exclude, "Leave out the files that match; may be repeated.")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  return {.run = [args] { return hub::pull_command(*args); }};
}

}  // namespace

const Command kPull{"pull", "Fetch a model or data set from the Hugging Face hub: docs/pull.md.",
                    "  ft pull Qwen/Qwen3-0.6B\n"
                    "  ft pull --dataset openai/gsm8k --include 'main/*' --include README.md\n"
                    "  ft pull org/name --revision v2 --exclude 'original/*'",
                    pull_options};

}  // namespace ft::commands
