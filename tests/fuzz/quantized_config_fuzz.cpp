// libFuzzer: any bytes as a config.json whose quantization_config says how the weights are stored. It gives a
// plan, or an error names the key.
#include "lora/fp8.h"
#include "lora/quantize.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ft::fuzz::MemoryFile config(ft::fuzz::text_of(data, size));
  ft::fuzz::read_within(size, [&] { (void)ft::lora::stored_four_bit_plan(config.path()); });
  ft::fuzz::read_within(size, [&] { (void)ft::lora::stored_fp8_plan(config.path()); });
  return 0;
}
