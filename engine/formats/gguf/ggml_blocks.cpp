#include "engine/formats/gguf/ggml_blocks.h"

#include <algorithm>
#include <iterator>

namespace ft {
namespace {

constexpr GgmlForm kForms[] = {
    {GgmlType::f32, "F32", 1, 4},
    {GgmlType::f16, "F16", 1, 2},
    {GgmlType::bf16, "BF16", 1, 2},
    {GgmlType::q4_0, "Q4_0", kSmallBlock, 18, quantize_q4_0, dequantize_q4_0},
    {GgmlType::q4_1, "Q4_1", kSmallBlock, 20, quantize_q4_1, dequantize_q4_1},
    {GgmlType::q5_0, "Q5_0", kSmallBlock, 22, quantize_q5_0, dequantize_q5_0},
    {GgmlType::q5_1, "Q5_1", kSmallBlock, 24, quantize_q5_1, dequantize_q5_1},
    {GgmlType::q8_0, "Q8_0", kSmallBlock, 34, quantize_q8_0, dequantize_q8_0},
    {GgmlType::iq4_nl, "IQ4_NL", kSmallBlock, 18, quantize_iq4_nl, dequantize_iq4_nl},
    {GgmlType::iq4_xs, "IQ4_XS", kLargeBlock, 136, nullptr, dequantize_iq4_xs},
    {GgmlType::q2_k, "Q2_K", kLargeBlock, 84, nullptr, dequantize_q2_k},
    {GgmlType::q3_k, "Q3_K", kLargeBlock, 110, nullptr, dequantize_q3_k},
    {GgmlType::q4_k, "Q4_K", kLargeBlock, 144, quantize_q4_k, dequantize_q4_k},
    {GgmlType::q5_k, "Q5_K", kLargeBlock, 176, quantize_q5_k, dequantize_q5_k},
    {GgmlType::q6_k, "Q6_K", kLargeBlock, 210, quantize_q6_k, dequantize_q6_k},
    {GgmlType::iq1_s, "IQ1_S", kLargeBlock, 50, nullptr, dequantize_iq1_s},
    {GgmlType::iq1_m, "IQ1_M", kLargeBlock, 56, nullptr, dequantize_iq1_m},
    {GgmlType::iq2_xxs, "IQ2_XXS", kLargeBlock, 66, nullptr, dequantize_iq2_xxs},
    {GgmlType::iq2_xs, "IQ2_XS", kLargeBlock, 74, nullptr, dequantize_iq2_xs},
    {GgmlType::iq2_s, "IQ2_S", kLargeBlock, 82, nullptr, dequantize_iq2_s},
    {GgmlType::iq3_xxs, "IQ3_XXS", kLargeBlock, 98, nullptr, dequantize_iq3_xxs},
    {GgmlType::iq3_s, "IQ3_S", kLargeBlock, 110, nullptr, dequantize_iq3_s},
    {GgmlType::tq1_0, "TQ1_0", kLargeBlock, 54, nullptr, dequantize_tq1_0},
    {GgmlType::tq2_0, "TQ2_0", kLargeBlock, 66, nullptr, dequantize_tq2_0},
    {GgmlType::mxfp4, "MXFP4", kSmallBlock, 17, nullptr, dequantize_mxfp4},
};

}  // namespace

const GgmlForm* form_of(GgmlType type) {
  const auto* at = std::ranges::find(kForms, type, &GgmlForm::type);
  return at == std::end(kForms) ? nullptr : at;
}

std::string ggml_type_names() {
  std::string names;
  for (const GgmlForm& f : kForms)
    names += (&f == kForms ? "" : &f == std::end(kForms) - 1 ? " and " : ", ") + std::string(f.name);
  return names;
}

}  // namespace ft
