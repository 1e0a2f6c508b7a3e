#include "app/commands/answerer_options.h"

namespace ft::commands {

void add_answerer_options(CLI::App& app, AnswererArgs& args, bool adapter) {
  app.add_option("--model", args.model, "Model folder, or id in the hub's cache.")
      ->required()
      ->type_name("DIR");
  if (adapter)
    app.add_option("--adapter", args.adapter, "PEFT adapter to apply to the model.")->type_name("DIR");
  Names dtypes = kDtypes;
  dtypes.emplace_back("auto");
  app.add_option("--dtype", args.dtype,
                 "Type of the computation; auto: the model's, if this machine supports it.")
      ->check(CLI::IsMember(dtypes))
      ->capture_default_str();
  app.add_option("--quantize", args.quantize, "Keep the weights of linear layers in 4 or 8 bits.")
      ->check(CLI::IsMember({"nf4", "fp4", "fp8", "int8"}));
  app.add_option("--quantize-head", args.quantize_head,
                 "Keep the weights of the output head in 8 bits; nf4, fp4 and fp8 do not change the head.")
      ->check(CLI::IsMember({"int8"}));
  app.add_option("settings", args.overrides, "Settings, see: ft help config generation.")
      ->type_name("generation.key=value");
}

}  // namespace ft::commands
