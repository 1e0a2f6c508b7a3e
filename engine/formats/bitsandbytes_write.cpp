#include "engine/formats/bitsandbytes_write.h"

#include <nlohmann/json.hpp>

namespace ft {
namespace {

constexpr std::size_t kLongestNumber = 24;  // characters of an f64: sign, 17 digits, point, e-308

std::string state_name(const std::string& weight, FourBitBook book) {
  return str(weight, ".quant_state.bitsandbytes__", name_of(book));
}

// Returns the JSON in the style of Python's json, padded with spaces to its greatest possible length.
std::string state_text(const StoredFourBit& s, float nested_offset) {
  std::string text =
      str("{\"quant_type\": \"", name_of(s.form.book), "\", \"blocksize\": ", s.form.block, ", \"dtype\": \"",
          name_of(s.dtype), "\", \"shape\": [", s.shape[0], ", ", s.shape[1], "]");
  if (s.form.nested)
    text +=
        str(", \"nested_blocksize\": ", kNestedBlock, ", \"nested_dtype\": \"float32\", \"nested_offset\": ");
  const std::string offset = s.form.nested ? Json(double{nested_offset}).dump() : "";
  const std::size_t longest = text.size() + 1 + (s.form.nested ? kLongestNumber : 0);
  text += offset + "}";
  text.resize(std::max(text.size(), longest), ' ');
  return text;
}

template <class T>
Tensor view(std::span<T> v) {
  return {reinterpret_cast<std::byte*>(v.data()), DTypeOf<T>::value, {static_cast<std::int64_t>(v.size())}};
}

}  // namespace

std::vector<TensorSpec> four_bit_specs(const std::string& weight, const StoredFourBit& s) {
  const std::int64_t n = s.shape.numel(), blocks = s.form.blocks(n);
  const auto length = static_cast<std::int64_t>(state_text(s, 0).size());
  std::vector<TensorSpec> specs = {{weight, DType::u8, {(n + 1) / 2, 1}},
                                   {weight + ".absmax", s.form.nested ? DType::u8 : DType::f32, {blocks}},
                                   {weight + ".quant_map", DType::f32, {16}},
                                   {state_name(weight, s.form.book), DType::u8, {length}}};
  if (!s.form.nested) return specs;
  specs.push_back({weight + ".nested_absmax", DType::f32, {(blocks + kNestedBlock - 1) / kNestedBlock}});
  specs.push_back(
      {weight + ".nested_quant_map", DType::f32, {static_cast<std::int64_t>(nested_map().size())}});
  return specs;
}

Json four_bit_config(FourBitForm form, DType compute) {
  return {{"_load_in_4bit", true},
          {"_load_in_8bit", false},
          {"bnb_4bit_compute_dtype", name_of(compute)},
          {"bnb_4bit_quant_storage", "uint8"},
          {"bnb_4bit_quant_type", name_of(form.book)},
          {"bnb_4bit_use_double_quant", form.nested},
          {"llm_int8_enable_fp32_cpu_offload", false},
          {"llm_int8_has_fp16_weight", false},
          {"llm_int8_skip_modules", nullptr},
          {"llm_int8_threshold", 6.0},
          {"load_in_4bit", true},
          {"load_in_8bit", false},
          {"quant_method", "bitsandbytes"}};
}

void write_four_bit(SafetensorsFiller& files, const std::string& weight, const StoredFourBit& s,
                    FourBitData& q) {
  FourBitValues values = four_bit_values(s.form.book);
  std::string text = state_text(s, q.nested_offset);
  files.write(weight, 0, view(std::span(q.codes)));
  files.write(weight + ".quant_map", 0, view(std::span<float>(values.of)));
  files.write(state_name(weight, s.form.book), 0,
              view(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size())));
  if (!s.form.nested) return files.write(weight + ".absmax", 0, view(std::span(q.absmax)));
  NestedMap map = nested_map();
  files.write(weight + ".absmax", 0, view(std::span(q.absmax_codes)));
  files.write(weight + ".nested_absmax", 0, view(std::span(q.nested_absmax)));
  files.write(weight + ".nested_quant_map", 0, view(std::span<float>(map)));
}

}  // namespace ft
