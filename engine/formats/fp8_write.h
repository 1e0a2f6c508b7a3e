// Writes weights in FP8 as compressed-tensors does (format float-quantized), which transformers and vLLM
// read.
#pragma once
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors_fill.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/formats/fp8.h"

namespace ft {

// Returns the tensors of a weight (out, in) with a scale for each row: codes, and NAME_scale (out, 1) in f32.
std::vector<TensorSpec> fp8_specs(const std::string& weight, const Shape& shape);
// quantization_config in config.json. dense: names of the linears that are not in FP8.
Json fp8_config(const std::vector<std::string>& dense);
// Writes the data of these tensors.
void write_fp8(SafetensorsFiller&, const std::string& weight, Fp8Data&);

}  // namespace ft
