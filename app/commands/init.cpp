// ft init.
#include "app/models/init.h"

#include "app/commands/list.h"

namespace ft::commands {
namespace {

Use init_options(CLI::App& app) {
  const auto args = std::make_shared<InitArgs>();
  app.add_option("--config", args->config, "The model's config.json, or a folder with one.")
      ->required()
      ->type_name("FILE");
  app.add_option("--output", args->output, "Folder to create.")->required()->type_name("DIR");
  app.add_option("--seed", args->seed, "Seed of the random weights.")->capture_default_str();
  app.add_option("--dtype", args->dtype, "Type of the weights (default: config.json's, else float32).")
      ->check(CLI::IsMember(kDtypes));
  app.add_flag("--load-in-4bit", args->load_in_4bit,
               "Write the linears in 4 bits (nf4), as ft quantize would; the dense model is never made.");
  app.add_flag("--double", args->double_quant, "With --load-in-4bit: the scales in 8 bits.")
      ->needs("--load-in-4bit");
  return {.run = [args] { return init(*args); }};
}

}  // namespace

const Command kInit{"init",
                    "Create a model with random weights from a config.json, initialised as in transformers.",
                    "  ft init --config config.json --output tiny\n"
                    "  ft init --config config.json --output tiny --seed 1 --dtype bfloat16\n"
                    "  ft init --config config.json --output large-nf4 --load-in-4bit --double",
                    init_options};

}  // namespace ft::commands
