#include "app/train/replaced_run.h"

#include <algorithm>
#include <set>

#include "engine/files/checkpoint_folder.h"
#include "engine/files/file.h"
#include "engine/files/make_folders.h"
#include "engine/files/staged_folder.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kMostSettings = std::int64_t{1} << 26;  // bytes of run.json

std::string moved(const std::string& output_dir) { return join_path(output_dir, "replaced-run"); }
std::string moving(const std::string& output_dir) { return join_path(output_dir, "replaced-run.part"); }

void rename_or_throw(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error)
    throw UserError(Exit::storage,
                    str(printable(from.string()), ": cannot be moved away: ", error.message()));
}

}  // namespace

bool is_being_replaced(const std::string& output_dir) { return path_exists(moving(output_dir)); }

bool keeps_older_run(const std::string& output_dir, const std::vector<fs::path>& files) {
  return path_exists(moved(output_dir)) && list_checkpoints(moving(output_dir)).empty() &&
         std::ranges::none_of(
             files, [](const fs::path& file) { return file.filename().string().starts_with("checkpoint-"); });
}

void move_into_replaced(const std::string& output_dir, const std::vector<fs::path>& files) {
  const std::string part = moving(output_dir);
  make_folders(part);
  std::set<std::string> filled{part};
  for (const fs::path& file : files) {
    const fs::path to = fs::path(part) / file.lexically_relative(output_dir);
    make_folders(to.parent_path().string());
    rename_or_throw(file, to);
    filled.insert(to.parent_path().string());
  }
  if (const std::string settings = join_path(output_dir, "run.json"); path_exists(settings))
    write_file(join_path(part, "run.json"), read_file(settings, kMostSettings, Exit::storage));
  for (const std::string& folder : filled) sync_folder(folder);
  sync_folder(output_dir);
  if (keeps_older_run(output_dir, files)) return remove_folder(part);
  remove_replaced(output_dir);
  rename_or_throw(part, moved(output_dir));
  sync_folder(output_dir);
}

void remove_replaced(const std::string& output_dir) {
  if (path_exists(moved(output_dir))) remove_folder(moved(output_dir));
}

std::string replaced_run(const std::string& output_dir) {
  return path_exists(moved(output_dir)) ? moved(output_dir) : "";
}

void ForgetReplaced::saved(const SavedRow&) {
  try {
    remove_replaced(output_dir_);
  } catch (const UserError& e) {
    warned_.warning(e.what());
  }
}

}  // namespace ft
