// ft quantize: writes a model with its linears in 4 bits, as the folder that bitsandbytes and transformers
// write. Training can start from it without quantizing. Keeps only one tensor in memory.
#pragma once
#include <string>

#include "engine/core/error.h"

namespace ft {

struct QuantizeArgs {
  std::string model, output;
  std::string type = "nf4";  // or fp4
  bool double_quant = false;
};
Exit quantize(const QuantizeArgs&);

}  // namespace ft
