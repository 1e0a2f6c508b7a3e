// libFuzzer: any bytes as a model's answer that may call tools. A streamed answer shows the same text.
#include "app/serve/tool_calls.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string answer(ft::fuzz::text_of(data, size));
  ft::fuzz::read_within(size, [&] { (void)ft::find_calls(answer, {"add", "get_weather"}); });
  ft::fuzz::read_within(size, [&] {
    ft::CallGate gate;
    std::string shown;
    for (std::size_t at = 0; at < size; at += 7) shown += gate.add(answer.substr(at, 7));
    shown += gate.finish();
    if (shown != answer) std::abort();
  });
  return 0;
}
