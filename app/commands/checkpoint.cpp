// ft checkpoint verify.
#include <array>

#include "app/commands/list.h"
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
constexpr std::array kCheckpointCommands{&kCheckpointVerify};

}  // namespace

const Command kCheckpoint{.name = "checkpoint",
                          .help = "Work with checkpoints: verify.",
                          .examples = "  ft checkpoint verify outputs/run/checkpoint-500",
                          .below = kCheckpointCommands};

}  // namespace ft::commands
