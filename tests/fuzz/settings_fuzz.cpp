// libFuzzer: any bytes as a run.json, and as the DeepSpeed file of a run. They are a run's settings, which can be
// written and read again, or an error names each mistake.
#include "app/config/config.h"
#include "app/deepspeed/read.h"
#include "tests/fuzz/input.h"

namespace {

constexpr const char* kRun = R"({"model": {"model_name_or_path": "m"}, "data": {"datasets": [{"path": "d.jsonl"}]},
  "training": {"output_dir": "o", "max_steps": 1}, "deepspeed": "ds.json"})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  const std::string_view text = ft::fuzz::text_of(data, size);
  folder.write("ds.json", text);
  ft::fuzz::read_within(size, [&] { (void)ft::deepspeed::parse_file(std::string(text), "ds.json"); });
  ft::fuzz::read_within(size, [&] { (void)ft::parse_config(kRun, "run.json", folder.path(), {}); });
  std::string again;
  ft::fuzz::read_within(size, [&] {
    again = ft::effective_config(ft::parse_config(std::string(text), "run.json", folder.path(), {}));
  });
  if (!again.empty())
    if (ft::effective_config(ft::parse_config(again, "run.json", folder.path(), {})) != again) std::abort();
  return 0;
}
