#include "app/models/convert.h"

#include "app/models/export.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/files/file.h"

namespace ft {
namespace {

// Returns the checkpoint that a path stands for, verified.
std::string checkpoint_at(const std::string& path) {
  if (!list_checkpoint_names(path).empty())
    if (const auto newest = find_newest_checkpoint(path).checkpoint) return newest->path;
  return open_checkpoint(path).path;
}

}  // namespace

Exit convert_checkpoint(const ConvertArgs& args) {
  const std::string checkpoint = checkpoint_at(args.path);
  const bool adapter = path_exists(join_path(checkpoint, "adapter_config.json"));
  return export_model({.to = !args.to.empty() ? args.to
                             : adapter        ? "peft"
                                              : "hf",
                       .from = checkpoint,
                       .output = args.output,
                       .dtype = args.dtype,
                       .overwrite = args.overwrite});
}

}  // namespace ft
