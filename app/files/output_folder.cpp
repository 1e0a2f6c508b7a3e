#include "app/files/output_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "app/files/model_files.h"
#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {
namespace fs = std::filesystem;
namespace {

// True if the folder cannot be renamed: it is mounted, as in containers, or its parent is not writable.
bool must_stay(const std::string& folder) {
  const std::string parent = folder_of(folder);
  struct stat own {
  }, around{};
  if (::stat(folder.c_str(), &own) != 0 || ::stat(parent.c_str(), &around) != 0) return false;
  return own.st_dev != around.st_dev || ::access(parent.c_str(), W_OK) != 0;
}

// Returns the target of a link, because an exchange would replace the link itself.
std::string resolved(const std::string& given) {
  const std::string folder = without_slash(given);
  std::error_code none;
  return fs::is_symlink(folder, none) ? fs::weakly_canonical(folder, none).string() : folder;
}

[[noreturn]] void fail(const fs::path& file, const std::error_code& error) {
  throw UserError(Exit::storage, str(printable(file.string()), ": cannot be written: ", error.message()));
}

}  // namespace

OutputFolder::OutputFolder(const std::string& folder, bool overwrite, const std::vector<std::string>& inputs)
    : folder_(resolved(folder)) {
  std::error_code none;
  if (path_exists(folder_) && !fs::is_empty(folder_, none)) {
    if (!overwrite)
      throw UserError(
          Exit::config,
          str("--output: ", folder, " already exists and is not empty; give another folder, or --overwrite"));
    require_outside(folder_, "--output", inputs);
  }
  inside_ = path_exists(folder_) && must_stay(folder_);
  const std::string staged = inside_ ? join_path(folder_, "new") : folder_;
  staged_ = std::make_unique<StagedFolder>(staged);
}

void OutputFolder::commit() {
  if (inside_) return move_in();
  if (path_exists(folder_)) keep_others();
  staged_->commit(true);
}

// Links the files that are not part of the old result into the new folder. Copies them if the file system has
// no links.
void OutputFolder::keep_others() const {
  constexpr auto kCopy = fs::copy_options::recursive | fs::copy_options::copy_symlinks;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_, error)) {
    const fs::path to = fs::path(path()) / entry.path().filename();
    if (is_result_file(entry.path()) || fs::exists(to)) continue;
    std::error_code linked, copied;
    fs::copy(entry.path(), to, kCopy | fs::copy_options::create_hard_links, linked);
    if (!linked) continue;
    fs::remove_all(to, copied);
    fs::copy(entry.path(), to, kCopy, copied);
    if (copied) fail(to, copied);
  }
  if (error) fail(folder_, error);
}

// Moves the files into the folder. Removes the old result first and adds the configuration last: a
// half-filled folder is then neither a model nor an adapter.
void OutputFolder::move_in() const {
  remove_result(folder_);
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path(), error)) files.push_back(entry.path());
  if (error) fail(path(), error);
  const auto is_configuration = [](const fs::path& file) {
    return file.filename() == "config.json" || file.filename() == "adapter_config.json";
  };
  std::partition(files.begin(), files.end(), [&](const fs::path& file) { return !is_configuration(file); });
  for (const fs::path& file : files) {
    const fs::path to = fs::path(folder_) / file.filename();
    fs::remove_all(to, error);
    fs::rename(file, to, error);
    if (error) fail(to, error);
  }
  sync_folder(folder_);
}

}  // namespace ft
