#include "app/files/output_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
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

constexpr std::array kConfigurations{"config.json", "adapter_config.json"};  // without them nothing loads

void remove_configurations(const std::string& folder) {
  bool removed = false;
  std::error_code error;
  for (const char* name : kConfigurations) {
    removed |= fs::remove(join_path(folder, name), error);
    if (error) fail(join_path(folder, name), error);
  }
  if (removed) sync_folder(folder);
}

void move(const fs::path& file, const fs::path& to) {
  std::error_code error;
  if (fs::is_directory(to, error)) fs::remove_all(to, error);  // a rename replaces files only
  fs::rename(file, to, error);
  if (error) fail(to, error);
}

// Makes a file, or a folder with all files below it, durable.
void sync_all(const fs::path& path) {
  const auto sync = [](const fs::path& file) {
    const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return;  // a link, or an unreadable file: syncing the folder keeps its name
    ::fsync(fd);         // refused for pipes and the like
    ::close(fd);
  };
  std::error_code none;
  sync(path);
  if (fs::is_symlink(path, none) || !fs::is_directory(path, none)) return;
  for (const auto& entry : fs::recursive_directory_iterator(path, none)) sync(entry.path());
}

}  // namespace

void move_result(const std::string& from, const std::string& to) {
  remove_configurations(to);
  std::vector<fs::path> files, last;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(from, error)) {
    const bool configuration = std::ranges::count(kConfigurations, entry.path().filename().string()) > 0;
    (configuration ? last : files).push_back(entry.path());
  }
  if (error) fail(from, error);
  std::ranges::sort(files);  // an index comes after its files
  for (const auto* some : {&files, &last}) {
    for (const fs::path& file : *some) move(file, fs::path(to) / file.filename());
    sync_folder(to);
  }
}

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
  if (inside_) {
    remove_configurations(folder_);
    remove_result(folder_);
    return move_result(path(), folder_);
  }
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
    if (linked) {
      fs::remove_all(to, copied);
      fs::copy(entry.path(), to, kCopy, copied);
      if (copied) fail(to, copied);
    }
    sync_all(to);
  }
  if (error) fail(folder_, error);
}

}  // namespace ft
