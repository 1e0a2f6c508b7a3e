#include "app/commands/begin_options.h"

namespace ft::commands {

void add_begin_options(CLI::App& app, BeginArgs& args, CLI::Option* other) {
  std::vector<CLI::Option*> all{
      app.add_option("--model", args.model, "A model folder, a GGUF file, or the id of a model on the hub.")
          ->type_name("MODEL"),
      app.add_option("--data", args.data,
                     "A data file, a folder, a pattern, or the id of a data set on the hub.")
          ->type_name("DATA")};
  const auto method = [&](const char* name, BeginMethod value, const char* help) {
    all.push_back(app.add_flag_callback(
        name, [&args, value] { args.method = value; }, help));
    return all.back();
  };
  CLI::Option* lora = method("--lora", BeginMethod::lora, "Train an adapter (LoRA).");
  CLI::Option* qlora =
      method("--qlora", BeginMethod::qlora, "Train an adapter, with the frozen weights in 4 bits (QLoRA).");
  CLI::Option* full = method("--full", BeginMethod::full, "Train all weights.");
  lora->excludes(qlora)->excludes(full);
  qlora->excludes(full);
  for (CLI::Option* option : all)
    if (other) option->excludes(other);
}

}  // namespace ft::commands
