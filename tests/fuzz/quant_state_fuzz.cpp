// libFuzzer: any bytes as the quantization state of a weight in 4 bits, as bitsandbytes stores it beside the
// codes. The first byte chooses one or two levels of scales.
#include "engine/formats/bitsandbytes.h"
#include "tests/fuzz/input.h"

namespace {

class Header {
 public:
  void add(const std::string& name, const char* type, std::size_t bytes, std::size_t element) {
    text_ += (text_.empty() ? "{\"" : ",\"") + name + R"(":{"dtype":")" + type + R"(","shape":[)" +
             std::to_string(bytes / element) + R"(],"data_offsets":[)" + std::to_string(at_) + "," +
             std::to_string(at_ + bytes) + "]}";
    at_ += bytes;
  }
  std::string text() const {
    std::string header = text_ + "}";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    std::string length(8, '\0');
    for (int i = 0; i < 8; ++i)
      length[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> 8 * i);
    return length + header;
  }

 private:
  std::string text_;
  std::size_t at_ = 0;
};

// Returns a folder's file with a weight of 8 rows of 64 elements, in blocks of 64.
std::string file_with(std::string_view state, bool nested, const char* kind) {
  const std::string w = "model.w.weight";
  Header header;
  header.add(w + ".quant_map", "F32", 64, 4);
  if (nested) header.add(w + ".nested_quant_map", "F32", 1024, 4);
  if (nested) header.add(w + ".nested_absmax", "F32", 4, 4);
  if (!nested) header.add(w + ".absmax", "F32", 32, 4);
  header.add(w, "U8", 256, 1);
  if (nested) header.add(w + ".absmax", "U8", 8, 1);
  header.add(w + ".quant_state.bitsandbytes__" + kind, "U8", state.size(), 1);
  const std::size_t before = 64 + (nested ? 1024 + 4 + 256 + 8 : 32 + 256);
  return header.text() + std::string(before, '\0') + std::string(state);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const ft::fuzz::MemoryFolder folder;
  const bool nested = (data[0] & 1) != 0, fp4 = (data[0] & 2) != 0;
  folder.write("model.safetensors",
               file_with(ft::fuzz::text_of(data + 1, size - 1), nested, fp4 ? "fp4" : "nf4"));
  ft::fuzz::read_within(size, [&] {
    const auto weights = ft::open_model_folder(folder.path());
    for (const std::string& name : weights->names()) {
      float values[64];
      weights->read(name, ft::Tensor(reinterpret_cast<std::byte*>(values), ft::DType::f32, {64}), 64);
    }
  });
  return 0;
}
