// libFuzzer: any bytes as a Parquet or Arrow file. They give rows, or an error that names the file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "data/files/columnar/rows.h"
#include "engine/core/error.h"

namespace {

constexpr int kRows = 2000;  // a few bytes may say that a value is repeated a million times

// A file in memory that contains the bytes; readers take a path.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : fd_(::memfd_create("fuzz", 0)) {
    if (fd_ < 0 || ::write(fd_, data, size) != static_cast<ssize_t>(size)) std::abort();
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(fd_); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const MemoryFile bytes(data, size);
  const ft::DataFile file{bytes.path(), "file"};
  try {
    const bool parquet = size > 0 && data[0] == 'P';
    const auto rows = parquet ? ft::columnar::open_parquet(file) : ft::columnar::open_arrow(file);
    ft::Row row;
    for (int i = 0; i < kRows && rows->next(row);) ++i;
  } catch (const ft::UserError& e) {
    if (e.code != ft::Exit::input || std::string(e.what()).find("file") == std::string::npos) std::abort();
  }
  return 0;
}
