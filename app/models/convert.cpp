#include "app/models/convert.h"

#include "app/models/export.h"
#include "app/screen/screen.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/files/file.h"

namespace ft {
namespace {

// Returns the checkpoint that a path stands for, verified. Warns of newer ones that are damaged.
std::string checkpoint_at(const std::string& path) {
  if (list_checkpoint_names(path).empty()) return open_checkpoint(path).path;
  const NewestCheckpoint newest = find_newest_checkpoint(path);
  if (!newest.checkpoint) throw UserError(Exit::checkpoint, newest.skipped.front());
  Screen screen(Screen::standard_error());
  for (const std::string& fault : newest.skipped) screen.line("warning: " + fault);
  return newest.checkpoint->path;
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
