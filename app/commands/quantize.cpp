// ft quantize.
#include "app/models/quantize.h"

#include "app/commands/list.h"
#include "app/config/hub_folders.h"

namespace ft::commands {
namespace {

Use quantize_options(CLI::App& app) {
  const auto args = std::make_shared<QuantizeArgs>();
  app.add_option("--model", args->model, "The model's folder or id.")->required()->type_name("DIR");
  app.add_option("--output", args->output, "Folder to create.")->required()->type_name("DIR");
  app.add_option("--type", args->type, "Type of the codes.")
      ->check(CLI::IsMember({"nf4", "fp4", "fp8"}))
      ->capture_default_str();
  app.add_flag("--double", args->double_quant,
               "nf4 and fp4: quantize the scales too, to 8 bits: 4.13 bits a weight instead of 4.5.");
  return {.run = [args] {
    args->model = model_folder(args->model, "main", "ft quantize");
    return quantize(*args);
  }};
}

}  // namespace

const Command kQuantize{"quantize", "Write a model in 4 bits, as bitsandbytes does, or in FP8.",
                        "  ft quantize --model models/base --output models/base-nf4 --double\n"
                        "  ft quantize --model models/base --output models/base-fp4 --type fp4\n"
                        "  ft quantize --model models/base --output models/base-fp8 --type fp8",
                        quantize_options};

}  // namespace ft::commands
