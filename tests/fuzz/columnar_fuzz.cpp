// libFuzzer: any bytes as a Parquet or Arrow file. They give rows, or an error that names the file.
#include <cstdlib>
#include <string>

#include "data/files/columnar/rows.h"
#include "engine/core/error.h"
#include "tests/fuzz/input.h"

namespace {

constexpr int kRows = 2000;  // a few bytes may say that a value is repeated a million times
constexpr ft::fuzz::Room kPages{.base = std::size_t{256} << 20};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ft::fuzz::MemoryFile bytes(ft::fuzz::text_of(data, size));
  const ft::DataFile file{bytes.path(), "file"};
  const auto read = [&] {
    const bool parquet = size > 0 && data[0] == 'P';
    const auto rows = parquet ? ft::columnar::open_parquet(file) : ft::columnar::open_arrow(file);
    ft::Row row;
    for (int i = 0; i < kRows && rows->next(row);) ++i;
  };
  const auto refuse = [&] {
    try {
      read();
    } catch (const ft::UserError& e) {
      if (e.code != ft::Exit::input || std::string(e.what()).find("file") == std::string::npos) std::abort();
    }
  };
  ft::fuzz::read_within(size, refuse, kPages);
  return 0;
}
