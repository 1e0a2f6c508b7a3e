// libFuzzer: any bytes as the results of ft sweep or, after a zero byte, of ft tune, which a later command
// reads to go on. They are read, and those of a sweep written and read again as the same, or an error names
// the place.
#include <cstdlib>

#include "app/sweep/table.h"
#include "app/tune/trials_file.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const ft::fuzz::MemoryFolder folder;
  const std::string_view all = ft::fuzz::text_of(data, size);
  if (all[0] == '\0') {
    const std::string file = folder.write("trials.jsonl", all.substr(1));
    ft::fuzz::read_within(size, [&] { (void)ft::TrialsFile(file).find("key"); });
    return 0;
  }
  const std::string file = folder.write("sweep.json", all);
  ft::fuzz::read_within(size, [&] {
    const ft::SweepTable table = ft::read_sweep_table(file);
    const std::string written = table.json();
    if (ft::read_sweep_table(folder.write("again.json", written)).json() != written) std::abort();
    (void)(table.csv() + table.markdown() + table.svg("title"));
  });
  return 0;
}
