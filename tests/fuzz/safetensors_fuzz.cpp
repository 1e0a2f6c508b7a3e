// libFuzzer: any bytes as a safetensors file. Its tensors are read, or an error names the file.
#include <array>

#include "engine/files/safetensors/safetensors.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ft::fuzz::MemoryFile bytes(ft::fuzz::text_of(data, size));
  ft::fuzz::read_within(size, [&] {
    const ft::SafetensorsFile file(bytes.path());
    for (const ft::StoredTensor& stored : file.tensors()) {
      std::array<double, 64> values;
      const auto type = ft::dtype_of(stored.type);
      if (!type || stored.numel == 0) continue;
      const std::int64_t n = std::min<std::int64_t>(stored.numel, 8);
      const ft::Tensor to(reinterpret_cast<std::byte*>(values.data()), *type, {n});
      file.read(stored, to, stored.numel - n, ft::Nonfinite::allow);
      if (file.find(stored.name) != &stored) std::abort();
    }
  });
  return 0;
}
