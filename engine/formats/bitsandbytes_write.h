// Writes 4-bit weights as bitsandbytes and transformers do. bitsandbytes.h lists a weight's tensors.
#pragma once
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors_fill.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "engine/formats/bitsandbytes.h"

namespace ft {

// Returns the tensors of a weight, for write_shards(). The tensor of its quant_state JSON, which will contain
// a number that is not known yet, has the greatest possible length.
std::vector<TensorSpec> four_bit_specs(const std::string& weight, const StoredFourBit&);
// quantization_config in config.json, as transformers 5 writes it. compute: the dtype of products.
Json four_bit_config(FourBitForm, DType compute);
// Writes the data of these tensors. nested_offset is taken from the data, not from the state.
void write_four_bit(SafetensorsFiller&, const std::string& weight, const StoredFourBit&, FourBitData&);

}  // namespace ft
