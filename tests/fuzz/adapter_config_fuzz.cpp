// libFuzzer: any bytes as PEFT's adapter_config.json.
#include "lora/peft_config.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ft::fuzz::MemoryFile bytes(ft::fuzz::text_of(data, size));
  ft::fuzz::read_within(size, [&] { (void)ft::lora::read_adapter_config(bytes.path(), ft::Exit::input); });
  return 0;
}
