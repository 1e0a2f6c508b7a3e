// ft translate-args.
#include "app/commands/list.h"
#include "app/translate/translate.h"

namespace ft::commands {
namespace {

Use translate_options(CLI::App& app) {
  const auto args = std::make_shared<TranslateArgs>();
  app.add_flag("--json", args->json, "One JSON object on stdout: config, flags, warnings, command.");
  app.prefix_command();
  app.callback([args, &app] {
    if (args->command.empty()) args->command = app.remaining();
    if (args->command.empty())
      throw UserError(Exit::config, "ft translate-args: give a command: ft translate-args -- deepspeed ...");
  });
  return {.run = [args] { return translate_args(*args); },
          .rest = [args](const Names& words) { args->command = words; }};
}

}  // namespace

const Command kTranslateArgs{
    "translate-args",
    "As ft import --strict -- COMMAND, with the verdicts and the JSON of earlier versions, for scripts that "
    "read them.",
    "  ft translate-args -- deepspeed --num_gpus 2 run_translation.py --model_name_or_path "
    "t5-small ... > run.json\n"
    "  ft translate-args --json -- deepspeed main.py --model_name_or_path models/llama-2-7b ...",
    translate_options};

}  // namespace ft::commands
