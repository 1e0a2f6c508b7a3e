#include "engine/files/safetensors/safetensors_fill.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "engine/files/convert.h"
#include "engine/files/links.h"
#include "engine/files/write_all.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kFilledAtOnce = std::int64_t{1} << 19;  // elements converted at once

[[noreturn]] void fail_to_fill(const std::string& path, int error) {
  throw UserError(Exit::storage, str(printable(path), ": cannot be written: ", system_error_text(error)));
}

void write_at(const SafetensorsFile& file, int fd, const std::byte* from, std::int64_t bytes,
              std::int64_t at) {
  while (bytes > 0) {
    const ssize_t put = ::pwrite(fd, from, static_cast<std::size_t>(bytes), at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) fail_to_fill(file.path(), put < 0 ? errno : ENOSPC);
    from += put, bytes -= put, at += put;
  }
}

}  // namespace

SafetensorsFiller::SafetensorsFiller(const std::string& folder) {
  const fs::path place = without_slash(folder);
  std::vector<std::string> names;
  std::error_code problem;
  for (const auto& entry : fs::directory_iterator(place, problem))
    if (entry.path().extension() == ".safetensors") names.push_back(entry.path().filename().string());
  if (problem) fail_to_fill(folder, problem.value());
  files_.reserve(names.size());  // places_ points into files_, which must not reallocate
  for (const std::string& name : names) {
    File& f = files_.emplace_back();
    f.header = std::make_unique<SafetensorsFile>((place / name).string(), Exit::storage);
    // The folder may not be a link either: it was just made.
    f.fd = open_below(place.parent_path().string(), (place.filename() / name).string(), O_WRONLY);
    // Compares no times and sizes, which other ranks change as they write their parts.
    const FileState own = state_of(f.fd), read = f.header->state();
    if (own.device != read.device || own.inode != read.inode)
      throw UserError(Exit::storage, printable((place / name).string()) +
                                         ": another file took its place while it was opened");
    for (const StoredTensor& t : f.header->tensors()) places_[t.name] = {&f, &t};
  }
}

SafetensorsFiller::~SafetensorsFiller() {
  for (const File& f : files_)
    if (f.fd >= 0) ::close(f.fd);
}

void SafetensorsFiller::write(const std::string& tensor, std::int64_t first, const Tensor& values) {
  const auto found = places_.find(tensor);
  require(found != places_.end(), "a tensor is filled in that is in no file");
  const auto& [file, stored] = found->second;
  const auto type = memory_type(stored->type);
  const std::int64_t n = values.numel();
  const bool weights = type && is_weight_type(*type) && is_weight_type(values.dtype);
  require(type && (weights || *type == values.dtype) && first >= 0 && first + n <= stored->numel,
          "a tensor is filled in with what it cannot hold");
  if (!weights) {
    write_at(*file->header, file->fd, values.data, values.bytes(), stored->begin + first * size_of(*type));
    return;
  }
  for (std::int64_t i = 0; i < n; i += kFilledAtOnce) {
    const std::int64_t count = std::min(kFilledAtOnce, n - i), bytes = count * size_of(*type);
    staging_.resize(static_cast<std::size_t>(bytes));
    convert(staging_.data(), *type, values.data + i * size_of(values.dtype), values.dtype, count);
    if (find_nonfinite(staging_.data(), *type, count) >= 0)
      throw UserError(Exit::numeric, str(printable(file->header->path()), ": not written: ",
                                         printable(tensor), " has a NaN or Inf as ", name_of(*type)));
    write_at(*file->header, file->fd, staging_.data(), bytes, stored->begin + (first + i) * size_of(*type));
  }
}

void SafetensorsFiller::sync() {
  for (const File& f : files_)
    if (const int error = sync_all(f.fd)) fail_to_fill(f.header->path(), error);
}

}  // namespace ft
