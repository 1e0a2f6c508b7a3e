// ft export.
#include "app/models/export.h"

#include "app/commands/list.h"

namespace ft::commands {
namespace {

Use export_options(CLI::App& app) {
  const auto args = std::make_shared<ExportArgs>();
  app.add_option("--to", args->to,
                 "peft: adapter folder. hf: model folder, adapters merged. gguf: the same model as one file "
                 "for llama.cpp. gguf-lora: adapter as a GGUF file.")
      ->required()
      ->check(CLI::IsMember({"peft", "hf", "gguf", "gguf-lora"}))
      ->type_name("FORMAT");
  app.add_option("--from", args->from, "A run's folder, a checkpoint, a model or an adapter.")
      ->required()
      ->type_name("DIR");
  app.add_option("--output", args->output, "Folder to create; for GGUF, the file.")
      ->required()
      ->type_name("PATH");
  app.add_option("--dtype", args->dtype,
                 "Type of the weights (default: as trained; float16 for gguf). Types with q: gguf only.")
      ->check(CLI::IsMember(export_dtypes()));
  app.add_flag("--overwrite", args->overwrite, "Replace the output if it exists.");
  return {.run = [args] { return export_model(*args); }};
}

}  // namespace

const Command kExport{"export", "Convert a run, a checkpoint or a model for other programs.",
                      "  ft export --to peft --from outputs/run/checkpoint-500 --output adapter\n"
                      "  ft export --to hf --from outputs/run --output model\n"
                      "  ft export --to gguf --from outputs/run --output model.gguf --dtype q4_k_m",
                      export_options};

}  // namespace ft::commands
