// libFuzzer: any bytes as a run.json; after a zero byte, DeepSpeed's file. They give a run's settings, which
// ft writes and reads again as the same settings, or errors.
#include <cstdlib>

#include "app/config/config.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  const std::string_view all = ft::fuzz::text_of(data, size);
  const std::size_t end = std::min(all.find('\0'), all.size());
  const std::string run = folder.write("run.json", all.substr(0, end));
  std::vector<std::string> overrides;
  if (end < all.size())
    overrides.push_back("deepspeed=" + folder.write("deepspeed.json", all.substr(end + 1)));
  ft::fuzz::read_within(size, [&] {
    const ft::ReportedConfig given = ft::load_reported(run, overrides, {.ranks = 2, .trains = true});
    const std::string written = ft::effective_config(given.config);
    if (ft::effective_config(ft::parse_config(written, "run.json", folder.path(), {})) != written)
      std::abort();
  });
  return 0;
}
