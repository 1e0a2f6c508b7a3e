#include "engine/train/reports/run_file.h"

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "engine/core/error.h"

namespace ft {
namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw UserError(Exit::storage, str(path, ": cannot be written: ", std::generic_category().message(error)));
}

}  // namespace

RunFile::RunFile(const std::string& path, bool keep) : path_(path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) fail(folder.string(), error.value());
  file_.reset(std::fopen(path.c_str(), keep ? "ab" : "wb"));
  if (!file_) fail(path, errno);
}

void RunFile::append(std::string_view piece) {
  require(file_ != nullptr, "a run file is opened before it is written");
  errno = 0;
  if (std::fwrite(piece.data(), 1, piece.size(), file_.get()) != piece.size() ||
      std::fflush(file_.get()) != 0)
    fail(path_, errno);
}

}  // namespace ft
