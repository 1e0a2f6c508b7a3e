// Writes weights in 4 bits as bitsandbytes and transformers do; bitsandbytes.h says what belongs to one.
#pragma once
#include "engine/files/json.h"
#include "engine/files/safetensors_fill.h"
#include "engine/files/safetensors_write.h"
#include "engine/formats/bitsandbytes.h"

namespace ft {

// The tensors of a weight, for write_shards(). The JSON of its quant_state, which has a number that is not
// known yet, is as long as it can be.
std::vector<TensorSpec> four_bit_specs(const std::string& weight, const StoredFourBit&);
// quantization_config in config.json, as transformers 5 writes it. compute: what products are computed in.
Json four_bit_config(FourBitForm, DType compute);
// Fills them in. The state's nested_offset is taken from the data.
void write_four_bit(SafetensorsFiller&, const std::string& weight, const StoredFourBit&, FourBitData&);

}  // namespace ft
