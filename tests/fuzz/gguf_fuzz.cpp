// libFuzzer: any bytes as a GGUF file. Its configuration, tokenizer and weights are read, or an error names
// the file.
#include <algorithm>
#include <vector>

#include "data/tokenizers/gguf_tokenizer.h"
#include "engine/formats/gguf/gguf.h"
#include "models/gguf/gguf_config.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  const ft::fuzz::MemoryFile bytes(ft::fuzz::text_of(data, size));
  ft::fuzz::read_within(size, [&] {
    const ft::GgufFile file(bytes.path());
    for (const ft::GgufTensor& tensor : file.tensors()) {
      const std::int64_t n = std::min<std::int64_t>(tensor.elements(), 512);
      std::vector<float> values(static_cast<std::size_t>(n));
      if (tensor.has_whole_blocks()) file.read(tensor, tensor.elements() - n, n, values.data());
    }
  });
  ft::fuzz::read_within(size, [&] {
    const ft::GgufFile file(bytes.path());
    ft::write_gguf_tokenizer(file, folder.path());
  });
  ft::fuzz::read_within(size, [&] {
    const ft::GgufFile file(bytes.path());
    const std::string config = folder.write("config.json", ft::config_of_gguf(file));
    const ft::GgufWeights weights(bytes.path(), config);
    (void)weights.types();
  });
  folder.clear();
  return 0;
}
