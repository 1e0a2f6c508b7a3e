// Chooses the element type of each tensor of a GGUF file.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/formats/gguf/gguf.h"
#include "models/gguf/gguf.h"

namespace ft {

// A value of --dtype: the type of most tensors, and general.file_type.
struct GgufForm {
  const char* name;
  GgmlType type;
  std::uint32_t file_type;
  bool mixed = false;  // _m: some tensors have more bits

  bool quantized() const { return form_of(type)->quantize != nullptr; }
};
const GgufForm& gguf_form(const std::string& dtype);
std::vector<std::string> gguf_dtypes();  // names of all forms

// Returns the type of a tensor by its shape and name: vectors, norms, routers and position tables stay f32.
// If `wanted` has blocks that do not divide a row, returns a type with smaller blocks.
GgmlType gguf_type_of(const GgufTensor&, GgmlType wanted);

// Chooses the types of a model's tensors as llama.cpp's quantizer does without an importance matrix
// (llama_tensor_get_type in src/llama-quant.cpp). The head is Q6_K. Mixed forms give more bits to the values
// and down projections of the first and last eighth of the layers, and of every third layer between them.
void choose_gguf_types(const GgufForm&, const GgufModel&, std::vector<GgufTensor>&);

}  // namespace ft
