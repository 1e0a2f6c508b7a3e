// ft checkpoint verify, list, prune.
#include <array>

#include "app/commands/list.h"
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

constexpr std::array kCheckpointCommands{&kCheckpointVerify, &kCheckpointList, &kCheckpointPrune};

}  // namespace

const Command kCheckpoint{.name = "checkpoint",
                          .help = "Work with checkpoints: verify, list, prune.",
                          .examples = "  ft checkpoint verify outputs/run/checkpoint-500",
                          .below = kCheckpointCommands};

}  // namespace ft::commands
