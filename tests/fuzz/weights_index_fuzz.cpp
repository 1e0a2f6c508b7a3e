// libFuzzer: any bytes as model.safetensors.index.json, beside two small files. The folder's weights are
// listed and read, or an error names the index.
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/files/safetensors/weights.h"
#include "tests/fuzz/input.h"

namespace {

// Returns a safetensors file with one f32 tensor of two elements.
std::string small_file(const std::string& name) {
  std::string header = R"({")" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  return length + header + std::string(8, '\0');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ft::fuzz::MemoryFolder folder;
  static const std::string a = folder.write("a.safetensors", small_file("model.a.weight"));
  static const std::string b = folder.write("b.safetensors", small_file("model.b.weight"));
  folder.write("model.safetensors.index.json", ft::fuzz::text_of(data, size));
  ft::fuzz::read_within(size, [&] {
    ft::ModelFolder weights(folder.path());
    weights.name_as({.prefix = "model.", .head = "lm_head.weight", .skip = {".bias"}});
    for (const std::string& name : weights.names()) {
      const ft::WeightInfo info = weights.info(name);
      float value = 0;
      weights.read(name, ft::Tensor(reinterpret_cast<std::byte*>(&value), ft::DType::f32, {1}), 1);
    }
  });
  return 0;
}
