// ft inspect.
#include "app/models/inspect.h"

#include "app/commands/list.h"
#include "app/config/hub_folders.h"

namespace ft::commands {
namespace {

Use inspect_options(CLI::App& app) {
  const auto args = std::make_shared<InspectArgs>();
  app.add_option("path", args->path, "A file or a folder.")->required()->type_name("PATH");
  app.add_flag("--json", args->json, "One JSON object on stdout.");
  return {.run = [args] {
    args->path = model_folder(args->path, "main", "ft inspect");
    return inspect(*args);
  }};
}

}  // namespace

const Command kInspect{
    "inspect", "Show what a safetensors, GGUF, Parquet or Arrow file, a model, an adapter or a run contains.",
    "  ft inspect model.safetensors\n"
    "  ft inspect outputs/run --json",
    inspect_options};

}  // namespace ft::commands
