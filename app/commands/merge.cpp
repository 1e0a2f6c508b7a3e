// ft merge.
#include "app/models/merge.h"

#include "app/commands/list.h"
#include "app/config/hub_folders.h"
#include "app/models/average.h"
#include "app/models/mix.h"

namespace ft::commands {
namespace {

// Adds the inputs, which are a base and its adapters or folders to average, and the output.
void add_merge_options(CLI::App& app, MergeArgs& args) {
  auto* base = app.add_option("--model", args.model, "The base model's folder or id.")->type_name("DIR");
  auto* adapter =
      app.add_option("--adapter", args.adapters,
                     "The PEFT adapter's folder. Several, or one with a weight (DIR=0.7), are mixed "
                     "first.")
          ->type_name("DIR")
          ->allow_extra_args(false);
  auto* average = app.add_option("--average", args.average,
                                 "Instead of both: write the mean of each weight of these folders, "
                                 "checkpoints or results, all models or all adapters.")
                      ->type_name("DIR")
                      ->expected(2, 1000);
  average->excludes(base);
  base->needs(adapter);
  adapter->needs(base);
  app.add_option("--output", args.output, "Folder to create.")->required()->type_name("DIR");
  app.add_option("--dtype", args.dtype, "Type of the weights (default: the model's).")
      ->check(CLI::IsMember(kDtypes));
  app.add_flag("--overwrite", args.overwrite, "Replace the folder if it exists.");
}

// Adds options that decide how several adapters are mixed.
void add_mix_options(CLI::App& app, MergeArgs& args) {
  auto* adapter = app.get_option("--adapter");
  app.add_option("--combination-type", args.combination_type,
                 "Method to mix adapters, as in PEFT's add_weighted_adapter (default: cat).")
      ->check(CLI::IsMember(combination_types()))
      ->needs(adapter);
  app.add_option("--density", args.density,
                 "Fraction of the values that ties, dare_* and magnitude_prune keep.")
      ->check(CLI::Range(1e-9, 1.0))
      ->needs(adapter);
  app.add_option("--svd-rank", args.svd_rank, "Rank of the result of svd (default: the adapters' largest).")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(adapter);
  app.add_option("--majority-sign-method", args.majority_sign_method,
                 "Method by which ties and dare_ties choose signs (default: total).")
      ->check(CLI::IsMember(Names{"total", "frequency"}))
      ->needs(adapter);
  app.add_option("--seed", args.seed, "Seed of the values that dare_* drop (default: 0).")->needs(adapter);
}

Exit merge_or_average(MergeArgs& args) {
  if (!args.average.empty()) return average(args);
  args.model = model_folder(args.model, "main", "ft merge");
  if (is_mix(args)) return merge_mixed(args);
  args.adapter = args.adapters[0];
  return merge(args);
}

Use merge_options(CLI::App& app) {
  const auto args = std::make_shared<MergeArgs>();
  add_merge_options(app, *args);
  add_mix_options(app, *args);
  app.callback([args] {
    if (args->average.empty() && args->model.empty())
      throw CLI::RequiredError("--model and --adapter, or --average");
  });
  return {.run = [args] { return merge_or_average(*args); }};
}

}  // namespace

const Command kMerge{
    "merge", "Merge an adapter into its model, or average checkpoints; writes a Hugging Face folder.",
    "  ft merge --model models/base --adapter outputs/run --output merged\n"
    "  ft merge --model models/base --adapter outputs/run --output merged --dtype bfloat16\n"
    "  ft merge --model models/base --adapter outputs/a=0.7 --adapter outputs/b=0.3 --output merged\n"
    "  ft merge --average outputs/run/checkpoint-100 outputs/run/checkpoint-200 --output mean",
    merge_options};

}  // namespace ft::commands
