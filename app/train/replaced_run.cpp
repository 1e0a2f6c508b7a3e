#include "app/train/replaced_run.h"

#include "engine/files/file.h"
#include "engine/files/staged_folder.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

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

void move_into_replaced(const std::string& output_dir, const std::vector<fs::path>& files) {
  const std::string part = moving(output_dir);
  std::error_code error;
  fs::create_directory(part, error);
  if (error)
    throw UserError(Exit::storage, str(printable(part), ": cannot make the folder: ", error.message()));
  sync_folder(output_dir);
  for (const fs::path& file : files) rename_or_throw(file, fs::path(part) / file.filename());
  sync_folder(part);
  sync_folder(output_dir);
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

void ForgetReplaced::saved(std::int64_t, double, const fs::path&) {
  try {
    remove_replaced(output_dir_);
  } catch (const UserError& e) {
    warned_.warning(e.what());
  }
}

}  // namespace ft
