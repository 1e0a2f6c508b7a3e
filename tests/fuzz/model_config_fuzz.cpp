// libFuzzer: any bytes as a model's config.json. They describe a model that ft knows, which is made without
// its weights, or an error names the key.
#include "models/family.h"
#include "models/registry.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  const std::string config = folder.write("config.json", ft::fuzz::text_of(data, size));
  constexpr ft::fuzz::Room kModel{.base = std::size_t{256} << 20};  // a few digits name thousands of layers
  ft::fuzz::read_within(
      size, [&] { (void)ft::make_model(config, ft::DType::bf16); }, kModel);
  ft::fuzz::read_within(
      size, [&] { (void)ft::make_gguf_model(config); }, kModel);
  ft::fuzz::read_within(size, [&] { (void)ft::read_decoder_tokens(config); });
  ft::fuzz::read_within(size, [&] { (void)ft::read_lora_targets(config); });
  return 0;
}
