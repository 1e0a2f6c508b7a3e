// ft checkpoint verify, list, prune, convert.
#include <array>

#include "app/commands/list.h"
#include "app/models/convert.h"
#include "app/train/checkpoints/checkpoint_list.h"
#include "app/train/checkpoints/checkpoint_verify.h"

namespace ft::commands {
namespace {

Use checkpoint_verify_options(CLI::App& app) {
  const auto path = std::make_shared<std::string>();
  app.add_option("path", *path, "A checkpoint, or a run's folder.")->required()->type_name("DIR");
  return {.run = [path] { return checkpoint_verify(*path); }};
}

const Command kCheckpointVerify{"verify",
                                "Compare size and SHA-256 of every file with the manifest; exit 0 or 4.",
                                "  ft checkpoint verify outputs/run/checkpoint-500\n"
                                "  ft checkpoint verify outputs/run              all checkpoints of a run",
                                checkpoint_verify_options};

Use checkpoint_list_options(CLI::App& app) {
  struct Args {
    std::string output_dir;
    bool json = false;
  };
  const auto args = std::make_shared<Args>();
  app.add_option("path", args->output_dir, "A run's folder.")->required()->type_name("DIR");
  app.add_flag("--json", args->json, "Print JSON.");
  return {.run = [args] { return checkpoint_list(args->output_dir, args->json); }};
}

const Command kCheckpointList{"list",
                              "Show the checkpoints of a run: step, time, size, losses, the best one.",
                              "  ft checkpoint list outputs/run", checkpoint_list_options};

Use checkpoint_prune_options(CLI::App& app) {
  const auto args = std::make_shared<PruneArgs>();
  app.add_option("path", args->output_dir, "A run's folder.")->required()->type_name("DIR");
  app.add_option("--keep", args->keep,
                 "Number of the newest intact checkpoints that stay, beside the best one.")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40))
      ->type_name("N");
  app.add_flag("--dry-run", args->dry_run, "Show what would be removed.");
  return {.run = [args] { return checkpoint_prune(*args); }};
}

const Command kCheckpointPrune{"prune", "Remove the oldest checkpoints of a run.",
                               "  ft checkpoint prune outputs/run --keep 2 --dry-run",
                               checkpoint_prune_options};

Use checkpoint_convert_options(CLI::App& app) {
  const auto args = std::make_shared<ConvertArgs>();
  app.add_option("path", args->path, "A checkpoint, or a run's folder: its newest complete checkpoint.")
      ->required()
      ->type_name("DIR");
  app.add_option("--to", args->to,
                 "peft: adapter folder (default for adapters). hf: model folder, adapters merged.")
      ->check(CLI::IsMember({"peft", "hf"}))
      ->type_name("FORMAT");
  app.add_option("--output", args->output, "Folder to create.")->required()->type_name("DIR");
  app.add_option("--dtype", args->dtype, "Type of the weights (default: as trained).")
      ->check(CLI::IsMember({"float32", "bfloat16", "float16"}));
  app.add_flag("--overwrite", args->overwrite, "Replace the output if it exists.");
  return {.run = [args] { return convert_checkpoint(*args); }};
}

const Command kCheckpointConvert{
    "convert",
    "Verify a checkpoint and write it for PEFT or transformers, as ft export does. Resuming with another "
    "number of ranks, ZeRO stage or layout needs no conversion.",
    "  ft checkpoint convert outputs/run/checkpoint-500 --output adapter\n"
    "  ft checkpoint convert outputs/run --to hf --output model",
    checkpoint_convert_options};

constexpr std::array kCheckpointCommands{&kCheckpointVerify, &kCheckpointList, &kCheckpointPrune,
                                         &kCheckpointConvert};

}  // namespace

const Command kCheckpoint{.name = "checkpoint",
                          .help = "Work with checkpoints: verify, list, prune, convert.",
                          .examples = "  ft checkpoint verify outputs/run/checkpoint-500",
                          .below = kCheckpointCommands};

}  // namespace ft::commands
