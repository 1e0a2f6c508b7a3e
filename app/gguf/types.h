// Which element type each tensor of a GGUF file gets.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/formats/gguf.h"
#include "models/gguf.h"

namespace ft {

// What --dtype names: most tensors' type, and general.file_type.
struct GgufForm {
  const char* name;
  GgmlType type;
  std::uint32_t file_type;
  bool mixed = false;  // _m: some tensors have more bits

  bool quantized() const { return form_of(type)->quantize != nullptr; }
};
const GgufForm& gguf_form(const std::string& dtype);
std::vector<std::string> gguf_dtypes();  // all names

// The type of a tensor by itself: vectors, norms, routers and tables of positions stay f32; of rows that are
// no whole blocks a type with smaller ones.
GgmlType gguf_type_of(const GgufTensor&, GgmlType wanted);

// The types of a model's tensors as llama.cpp's quantizer chooses them without an importance matrix
// (llama_tensor_get_type in src/llama-quant.cpp): the head as Q6_K, and of the mixed forms values and down
// projections of the first and last eighth of the layers, and of every third between them.
void choose_gguf_types(const GgufForm&, const GgufModel&, std::vector<GgufTensor>&);

}  // namespace ft
