// ft push.
#include "app/push/push.h"

#include "app/commands/list.h"

namespace ft::commands {
namespace {

Use push_options(CLI::App& app) {
  const auto args = std::make_shared<hub::PushArgs>();
  app.add_option("folder", args->folder, "The folder of an adapter, a model, GGUF files or data.")
      ->required()
      ->type_name("FOLDER");
  app.add_option("id", args->id, "The id that it gets on the hub: org/name.")->required()->type_name("ID");
  app.add_option("--type", args->type, "model or dataset; datasets/org/name is a data set too.")
      ->check(CLI::IsMember({"model", "dataset"}))
      ->type_name("TYPE")
      ->capture_default_str();
  app.add_flag("--private", args->is_private, "If the repository is new, only its owner sees it.");
  app.add_option("--revision", args->revision, "The branch that gets the files; a new one begins at main.")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_flag("--create-pr", args->create_pr, "Propose the files in a pull request.");
  app.add_option("--message", args->message, "The message of the commit.")
      ->type_name("TEXT")
      ->capture_default_str();
  app.add_option("--base-model", args->base_model,
                 "The base model's id, for the card and adapter_config.json, if the adapter names a path.")
      ->type_name("ID");
  app.add_option("--include", args->patterns.include,
                 "Send the files that match, such as '*.gguf', also checkpoints and logs; may be repeated.")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  app.add_option("--exclude", args->patterns.exclude, "Leave out the files that match; may be repeated.")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  app.add_flag("--dry-run", args->dry_run, "Show the files that would be sent, and open no connection.");
  return {.run = [args] { return hub::push_command(*args); }};
}

}  // namespace

const Command kPush{"push", "Send an adapter, a model or data to the Hugging Face hub: docs/push.md.",
                    "  ft push outputs/gsm8k org/gsm8k-lora --dry-run\n"
                    "  ft push outputs/gsm8k org/gsm8k-lora --private\n"
                    "  ft push rows org/rows --type dataset",
                    push_options};

}  // namespace ft::commands
