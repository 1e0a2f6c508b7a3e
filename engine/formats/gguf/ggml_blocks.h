// The element types of GGUF files: blocks of values that share scales. Quantizing produces llama.cpp's bytes
// (ggml/src/ggml-quants.c, its `_ref` functions: without an importance matrix). Every operation is rounded to
// float separately: a fused multiply-add would change bytes.
#pragma once
#include <cstdint>
#include <string>

namespace ft {

enum class GgmlType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq1_s = 19,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  iq1_m = 29,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  mxfp4 = 39,
};

// A type's format. Rows are a multiple of the block.
struct GgmlForm {
  GgmlType type;
  const char* name;    // F32, Q4_K, ...
  std::int64_t block;  // elements
  std::int64_t bytes;  // of a block
  // Functions of one block. quantize is null for types that ft only reads. Both are null if elements are
  // plain numbers.
  void (*quantize)(const float* x, std::uint8_t* y) = nullptr;
  void (*dequantize)(const std::uint8_t* x, float* y) = nullptr;
};
// Null: ft does not know the type.
const GgmlForm* form_of(GgmlType);
std::string ggml_type_names();  // "F32, F16, ... and Q6_K": the types that ft reads

constexpr std::int64_t kSmallBlock = 32, kLargeBlock = 256;

// ggml_legacy.cpp. Layout of y: for Q4, the scale and 16 bytes, byte i with the codes i and i + 16. Q5 has
// the fifth bits before these bytes. The _1 types have the smallest value after the scale.
void quantize_q4_0(const float* x, std::uint8_t* y);
void quantize_q4_1(const float* x, std::uint8_t* y);
void quantize_q5_0(const float* x, std::uint8_t* y);
void quantize_q5_1(const float* x, std::uint8_t* y);
void quantize_q8_0(const float* x, std::uint8_t* y);
void quantize_iq4_nl(const float* x, std::uint8_t* y);
void dequantize_q4_0(const std::uint8_t* x, float* y);
void dequantize_q4_1(const std::uint8_t* x, float* y);
void dequantize_q5_0(const std::uint8_t* x, float* y);
void dequantize_q5_1(const std::uint8_t* x, float* y);
void dequantize_q8_0(const std::uint8_t* x, float* y);
void dequantize_iq4_nl(const std::uint8_t* x, float* y);
void dequantize_iq4_xs(const std::uint8_t* x, float* y);
void dequantize_mxfp4(const std::uint8_t* x, float* y);
// ggml_k_quants.cpp
void quantize_q4_k(const float* x, std::uint8_t* y);
void quantize_q5_k(const float* x, std::uint8_t* y);
void quantize_q6_k(const float* x, std::uint8_t* y);
void dequantize_q2_k(const std::uint8_t* x, float* y);
void dequantize_q3_k(const std::uint8_t* x, float* y);
void dequantize_q4_k(const std::uint8_t* x, float* y);
void dequantize_q5_k(const std::uint8_t* x, float* y);
void dequantize_q6_k(const std::uint8_t* x, float* y);
// ggml_iq.cpp
void dequantize_iq1_s(const std::uint8_t* x, float* y);
void dequantize_iq1_m(const std::uint8_t* x, float* y);
void dequantize_iq2_xxs(const std::uint8_t* x, float* y);
void dequantize_iq2_xs(const std::uint8_t* x, float* y);
void dequantize_iq2_s(const std::uint8_t* x, float* y);
void dequantize_iq3_xxs(const std::uint8_t* x, float* y);
void dequantize_iq3_s(const std::uint8_t* x, float* y);
// ggml_ternary.cpp
void dequantize_tq1_0(const std::uint8_t* x, float* y);
void dequantize_tq2_0(const std::uint8_t* x, float* y);

}  // namespace ft
