// Commands about models and checkpoints: merge, quantize, export, inspect, checkpoint verify, init.
#include "app/commands/command_parser.h"
#include "app/config/hub_folders.h"
#include "app/models/average.h"
#include "app/models/mix.h"
#include "app/train/checkpoint_verify.h"

namespace ft {
namespace {

// A base and its adapter, or folders to average.
void add_options(CLI::App& to, MergeArgs& args) {
  auto* base = to.add_option("--model", args.model, "The base model's folder or id.")->type_name("DIR");
  auto* adapter =
      to.add_option("--adapter", args.adapters,
                    "The PEFT adapter's folder. Several, or one with a weight (DIR=0.7), are mixed "
                    "first.")
          ->type_name("DIR")
          ->allow_extra_args(false);
  auto* average = to.add_option("--average", args.average,
                                "In place of both: folders of checkpoints or results, all models or all "
                                "adapters, of which the mean of each weight is written.")
                      ->type_name("DIR")
                      ->expected(2, 1000);
  average->excludes(base);
  base->needs(adapter);
  adapter->needs(base);
  to.add_option("--output", args.output, "Folder to create.")->required()->type_name("DIR");
  to.add_option("--dtype", args.dtype, "Type of the weights (default: the model's).")
      ->check(CLI::IsMember(kDtypes));
  to.add_flag("--overwrite", args.overwrite, "Replace the folder if it exists.");
}

// How several adapters are mixed.
void add_mix_options(CLI::App& to, MergeArgs& args) {
  auto* adapter = to.get_option("--adapter");
  to.add_option("--combination-type", args.combination_type,
                "How adapters are mixed, as by PEFT's add_weighted_adapter (default: cat).")
      ->check(CLI::IsMember(combination_types()))
      ->needs(adapter);
  to.add_option("--density", args.density, "Part of the values that ties, dare_* and magnitude_prune leave.")
      ->check(CLI::Range(1e-9, 1.0))
      ->needs(adapter);
  to.add_option("--svd-rank", args.svd_rank, "Rank of what svd makes (default: the adapters' largest).")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(adapter);
  to.add_option("--majority-sign-method", args.majority_sign_method,
                "How ties and dare_ties elect signs (default: total).")
      ->check(CLI::IsMember(CommandLine::Names{"total", "frequency"}))
      ->needs(adapter);
  to.add_option("--seed", args.seed, "Seed of what dare_* leave out (default: 0).")->needs(adapter);
}

void add_options(CLI::App& init, InitArgs& args) {
  init.add_option("--config", args.config, "The model's config.json, or a folder with one.")
      ->required()
      ->type_name("FILE");
  init.add_option("--output", args.output, "Folder to create.")->required()->type_name("DIR");
  init.add_option("--seed", args.seed, "Seed of the random weights.")->capture_default_str();
  init.add_option("--dtype", args.dtype, "Type of the weights (default: config.json's, else float32).")
      ->check(CLI::IsMember(kDtypes));
  init.add_flag("--load-in-4bit", args.load_in_4bit,
                "Write the linears in 4 bits (nf4), as ft quantize would; the dense model is never made.");
  init.add_flag("--double", args.double_quant, "With --load-in-4bit: the scales in 8 bits.")
      ->needs("--load-in-4bit");
}

Exit merge_or_average(MergeArgs& args) {
  if (!args.average.empty()) return average(args);
  args.model = model_folder(args.model, "main", "ft merge");
  if (is_mix(args)) return merge_mixed(args);
  args.adapter = args.adapters[0];
  return merge(args);
}

}  // namespace

void CommandLine::on_model(CLI::App* app, std::string& name, const std::function<Exit()>& action) {
  app->callback([this, app, &name, action] {
    action_ = [app, &name, action] {
      name = model_folder(name, "main", "ft " + app->get_name());
      return action();
    };
  });
}

void CommandLine::models() {
  auto* merge = command(
      "merge", "Merge an adapter into its model, or average checkpoints; writes a Hugging Face folder.",
      "  ft merge --model models/base --adapter outputs/run --output merged\n"
      "  ft merge --model models/base --adapter outputs/run --output merged --dtype bfloat16\n"
      "  ft merge --model models/base --adapter outputs/a=0.7 --adapter outputs/b=0.3 --output merged\n"
      "  ft merge --average outputs/run/checkpoint-100 outputs/run/checkpoint-200 --output mean");
  add_options(*merge, merge_);
  add_mix_options(*merge, merge_);
  merge->callback([this] {
    if (merge_.average.empty() && merge_.model.empty())
      throw CLI::RequiredError("--model and --adapter, or --average");
    action_ = [this] { return merge_or_average(merge_); };
  });

  auto* quantize = command("quantize", "Write a model in 4 bits, as bitsandbytes and transformers do.",
                           "  ft quantize --model models/base --output models/base-nf4 --double\n"
                           "  ft quantize --model models/base --output models/base-fp4 --type fp4");
  quantize->add_option("--model", quantize_.model, "The model's folder or id.")->required()->type_name("DIR");
  quantize->add_option("--output", quantize_.output, "Folder to create.")->required()->type_name("DIR");
  quantize->add_option("--type", quantize_.type, "Type of the codes.")
      ->check(CLI::IsMember({"nf4", "fp4"}))
      ->capture_default_str();
  quantize->add_flag("--double", quantize_.double_quant,
                     "Quantize the scales too, to 8 bits: 4.13 bits a weight in place of 4.5.");
  on_model(quantize, quantize_.model, [this] { return ft::quantize(quantize_); });

  auto* to = command("export", "Convert a run, a checkpoint or a model for other programs.",
                     "  ft export --to peft --from outputs/run/checkpoint-500 --output adapter\n"
                     "  ft export --to hf --from outputs/run --output model\n"
                     "  ft export --to gguf --from outputs/run --output model.gguf --dtype q4_k_m");
  to->add_option("--to", export_.to,
                 "peft: adapter folder. hf: model folder, adapters merged. gguf: the same model as one file "
                 "for llama.cpp. gguf-lora: adapter as a GGUF file.")
      ->required()
      ->check(CLI::IsMember({"peft", "hf", "gguf", "gguf-lora"}))
      ->type_name("FORMAT");
  to->add_option("--from", export_.from, "A run's folder, a checkpoint, a model or an adapter.")
      ->required()
      ->type_name("DIR");
  to->add_option("--output", export_.output, "Folder to create; for GGUF, the file.")
      ->required()
      ->type_name("PATH");
  to->add_option("--dtype", export_.dtype,
                 "Type of the weights (default: as trained; float16 for gguf). Those with q: gguf only.")
      ->check(CLI::IsMember(export_dtypes()));
  to->add_flag("--overwrite", export_.overwrite, "Replace the output if it exists.");
  to->callback([this] { action_ = [this] { return export_model(export_); }; });

  auto* inspect =
      command("inspect",
              "Show what a safetensors, GGUF, Parquet or Arrow file, a model, an adapter or a run contains.",
              "  ft inspect model.safetensors\n"
              "  ft inspect outputs/run --json");
  inspect->add_option("path", inspect_.path, "A file or a folder.")->required()->type_name("PATH");
  inspect->add_flag("--json", inspect_.json, "One JSON object on stdout.");
  on_model(inspect, inspect_.path, [this] { return ft::inspect(inspect_); });

  auto* checkpoint = command("checkpoint", "Work with checkpoints: verify.",
                             "  ft checkpoint verify outputs/run/checkpoint-500");
  checkpoint->require_subcommand(1);
  auto* verify = command("verify", "Compare size and SHA-256 of every file with the manifest; exit 0 or 4.",
                         "  ft checkpoint verify outputs/run/checkpoint-500\n"
                         "  ft checkpoint verify outputs/run              all checkpoints of a run",
                         checkpoint);
  verify->add_option("path", checkpoint_, "A checkpoint, or a run's folder.")->required()->type_name("DIR");
  verify->callback([this] { action_ = [this] { return checkpoint_verify(checkpoint_); }; });

  auto* init = command(
      "init", "Create a model with random weights from a config.json, initialised as in transformers.",
      "  ft init --config config.json --output tiny\n"
      "  ft init --config config.json --output tiny --seed 1 --dtype bfloat16\n"
      "  ft init --config config.json --output large-nf4 --load-in-4bit --double");
  add_options(*init, init_);
  init->callback([this] { action_ = [this] { return ft::init(init_); }; });
}

}  // namespace ft
