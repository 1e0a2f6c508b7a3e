// ft import.
#include "app/translate/import.h"

#include "app/commands/list.h"

namespace ft::commands {
namespace {

Use import_options(CLI::App& app) {
  const auto args = std::make_shared<ImportArgs>();
  app.add_option("FILE", args->file, "YAML file of axolotl, LLaMA-Factory, TRL or torchtune.");
  app.add_option("--from", args->from, "Name of the program; default: the keys of the file show it.");
  app.add_option("--output", args->output, "The file to write; default: stdout.")->type_name("FILE");
  app.add_flag("--overwrite", args->overwrite, "Replace the file.");
  app.add_flag("--strict", args->strict, "Exit with 2, without a run.json, if ft does not have a key.");
  app.add_flag("--json", args->json, "One JSON object on stdout: program, config, keys, warnings, command.");
  app.callback([args] {
    if (args->file.empty() == args->command.empty())
      throw UserError(Exit::config, args->file.empty() ? "ft import: give a file, or a command after --"
                                                       : "ft import: give a file or a command, not both");
  });
  return {.run = [args] { return import_run(*args); },
          .rest = [args](const Names& words) { args->command = words; }};
}

}  // namespace

const Command kImport{
    "import",
    "Print the run.json for a file or a command line of another program: axolotl, LLaMA-Factory, TRL, "
    "torchtune, "
    "DeepSpeed-Chat, run_translation.py. Each key gets a verdict on stderr.",
    "  ft import axolotl.yml --output run.json\n"
    "  ft import --strict qwen3_lora_sft.yaml > run.json     nothing, if ft does not have a key\n"
    "  ft import -- trl dpo --model_name_or_path Qwen/Qwen3-0.6B --dataset_name "
    "trl-lib/ultrafeedback_binarized\n"
    "  ft import -- tune run lora_finetune_single_device --config 8B_lora.yaml epochs=2",
    import_options};

}  // namespace ft::commands
