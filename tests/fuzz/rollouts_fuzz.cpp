// libFuzzer: any bytes as the files of lines that a resumed run finds: rollouts.jsonl and log.jsonl. Rows up
// to a step stay; a line that cannot be read ends them.
#include "app/rollouts/rollouts_file.h"
#include "engine/train/reports/json_log.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  const std::string_view text = ft::fuzz::text_of(data, size);
  const std::string log = folder.write("log.jsonl", text), rollouts = folder.write("rollouts.jsonl", text);
  ft::fuzz::read_within(size, [&] { (void)ft::read_log(log, 3); });
  ft::fuzz::read_within(size, [&] {
    ft::Report report;
    ft::RolloutsFile file(rollouts, 3, report);
  });
  return 0;
}
