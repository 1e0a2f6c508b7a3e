#include "engine/cuda/gemm/gemm_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "engine/files/hash.h"
#include "engine/files/json.h"

namespace ft::cuda {
namespace {

constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;

[[noreturn]] void refuse(Exit exit, const std::string& path, const std::string& what) {
  throw UserError(exit, str("training.gemm_tuning: ", printable(path), what));
}
[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  refuse(Exit::storage, path, str(" cannot be ", what, ": ", system_error_text(error)));
}

// The key with each size cut to its four leading bits: keys that are equal after this share lines of the
// file.
GemmKey alike(GemmKey key) {
  for (std::int64_t* size : {&key.m, &key.n, &key.k}) {
    const auto value = static_cast<std::uint64_t>(*size);
    const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - 4);
    *size = static_cast<std::int64_t>(value >> shift << shift);
  }
  return key;
}

struct Writer {
  Json& row;
  void operator()(const char* name, auto value) const { row[name] = value; }
  void operator()(const char* name, DType value) const { row[name] = name_of(value); }
  void if_set(const char* name, bool value) const {
    if (value) row[name] = true;
  }
};

struct Reader {
  const JsonObject& row;
  void operator()(const char* name, std::int64_t& value) const { value = row.integer(name, 0); }
  void operator()(const char* name, bool& value) const { value = row.boolean(name); }
  void if_set(const char* name, bool& value) const { value = row.boolean_or(name, false); }
  void operator()(const char* name, DType& value) const {
    const std::string text = row.text(name);
    for (const DType t : {DType::f32, DType::bf16, DType::f16, DType::u8})
      if (text == name_of(t)) return void(value = t);
    row.refuse(name, "float32, bfloat16, float16 or uint8");
  }
};

AlgorithmBytes algorithm_of(const JsonObject& row) {
  const std::string text = row.text("algorithm");
  AlgorithmBytes bytes{};
  bool right = text.size() == 2 * bytes.size();
  for (std::size_t i = 0; i < bytes.size() && right; ++i) {
    const char *begin = text.data() + 2 * i, *end = begin + 2;
    right = std::from_chars(begin, end, bytes[i], 16).ptr == end;
  }
  if (!right) row.refuse("algorithm", "64 bytes in hexadecimal digits");
  return bytes;
}

}  // namespace

// Holds the file's lock. On a file system without locks two processes may measure the same product.
class GemmFile::Locked {
 public:
  explicit Locked(int fd) : fd_(fd) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~Locked() { ::flock(fd_, LOCK_UN); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  int fd_;
};

GemmFile::GemmFile(const std::string& path, const GemmMachine& machine) : path_(path), machine_(machine) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd_ < 0) fail(path, "written", errno);
  try {
    struct stat info {};
    if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) refuse(Exit::storage, path, " is not a file");
    const Locked lock(fd_);
    read_on();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

GemmFile::~GemmFile() { ::close(fd_); }

std::optional<AlgorithmBytes> GemmFile::first(const GemmKey& key, const Usable& usable) const {
  if (const auto lines = known_.find(alike(key)); lines != known_.end())
    for (const AlgorithmBytes& a : lines->second)
      if (usable(a)) return a;
  return std::nullopt;
}

std::optional<AlgorithmBytes> GemmFile::find(const GemmKey& key, const Usable& usable) {
  const Locked lock(fd_);
  read_on();
  return first(key, usable);
}

AlgorithmBytes GemmFile::keep(const GemmKey& key, const AlgorithmBytes& algorithm,
                              std::span<const double> microseconds, const Usable& usable) {
  const Locked lock(fd_);
  read_on();
  if (const auto theirs = first(key, usable)) return *theirs;
  Json row = {{"gpu", machine_.gpu},
              {"compute_capability", machine_.compute_capability},
              {"cublaslt", machine_.cublaslt},
              {"workspace", machine_.workspace}};
  GemmKey::fields(key, Writer{row});
  row["algorithm"] = hexadecimal(algorithm);
  for (const double t : microseconds)
    row["microseconds"].push_back(std::isfinite(t) ? Json(std::round(10 * t) / 10) : Json());
  append(json_text(row, -1));
  known_[alike(key)].push_back(algorithm);
  return algorithm;
}

void GemmFile::read_on() {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) fail(path_, "read", errno);
  if (info.st_size > kMostBytes)
    refuse(Exit::input, path_, str(": is ", info.st_size, " bytes; at most ", kMostBytes, " are read"));
  if (info.st_size < read_) {  // somebody has emptied the file
    read_ = info.st_size;
    lines_ = 0;
    ended_ = true;
  }
  if (info.st_size == read_) return;
  std::string text(static_cast<std::size_t>(info.st_size - read_), '\0');
  for (std::size_t got = 0; got < text.size();) {
    const ssize_t n =
        ::pread(fd_, text.data() + got, text.size() - got, read_ + static_cast<std::int64_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(path_, "read", errno);
    if (n == 0) text.resize(got);
    got += static_cast<std::size_t>(n);
  }
  read_ += static_cast<std::int64_t>(text.size());
  std::string_view rest = text;
  if (!ended_ && rest.starts_with('\n')) rest.remove_prefix(1);  // ends the last line
  ended_ = text.ends_with('\n');
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    ++lines_;
    read_line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void GemmFile::read_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == line.npos) return;
  try {
    const JsonObject row = JsonObject::parse(line, {path_, lines_});
    const GemmMachine machine{row.text("gpu"), row.text("compute_capability"), row.integer("cublaslt", 0),
                              row.integer("workspace", 0)};
    GemmKey key{};
    GemmKey::fields(key, Reader{row});
    const AlgorithmBytes algorithm = algorithm_of(row);
    if (machine == machine_) known_[alike(key)].push_back(algorithm);
  } catch (const UserError& e) {
    throw UserError(Exit::input, str("training.gemm_tuning: line ", lines_, ": ", e.what(),
                                     "\n  delete the line, or the file: missing entries are timed again"));
  }
}

void GemmFile::append(std::string line) {
  line = str(ended_ ? "" : "\n", line, "\n");
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      if (::ftruncate(fd_, read_) != 0) fail(path_, "repaired", errno);
      fail(path_, "written", error);
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  read_ += static_cast<std::int64_t>(line.size());
  ++lines_;
  ended_ = true;
}

}  // namespace ft::cuda
