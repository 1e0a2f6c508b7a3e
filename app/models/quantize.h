// ft quantize: writes a model with its linears in 4 bits, as the folder that bitsandbytes and transformers
// write, or in FP8, as compressed-tensors does. Training can start from it without quantizing. Keeps only one
// tensor in memory.
#pragma once
#include <string>

#include "engine/core/error.h"

namespace ft {

struct QuantizeArgs {
  std::string model, output;
  std::string type = "nf4";  // fp4, fp8
  bool double_quant = false;
};
Exit quantize(const QuantizeArgs&);

}  // namespace ft
