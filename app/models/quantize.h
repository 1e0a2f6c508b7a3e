// ft quantize: a model's linears in 4 bits, in the folder that bitsandbytes and transformers write, from
// which training starts without quantizing. One tensor at a time.
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
