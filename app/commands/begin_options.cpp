#include "app/commands/begin_options.h"

namespace ft::commands {

void add_begin_options(CLI::App& app, BeginArgs& args) {
  app.add_option("--model", args.model, "A model folder, a GGUF file, or the id of a model on the hub.")
      ->type_name("PATH");
  app.add_option("--data", args.data, "A data file, a folder, a pattern, or the id of a data set on the hub.")
      ->type_name("PATH");
  const auto method = [&](const char* name, BeginMethod value, const char* help) {
    const auto choose = [&args, value] {
      if (args.method != BeginMethod::chosen)
        throw UserError(Exit::config, "--lora, --qlora and --full: give one of them");
      args.method = value;
    };
    app.add_flag_callback(name, choose, help);
  };
  method("--lora", BeginMethod::lora, "Train an adapter (LoRA).");
  method("--qlora", BeginMethod::qlora, "Train an adapter, with the frozen weights in 4 bits (QLoRA).");
  method("--full", BeginMethod::full, "Train all weights.");
}

}  // namespace ft::commands
