// training.fp8: products of linears in FP8.
#pragma once
#include "app/assembly/built_model.h"

namespace ft {

// Lets the model's FP8 weights, and in full fine-tuning the trained linears of its blocks but routers,
// multiply with rows in FP8; training.fp8_skip leaves modules out. Throws UserError (config) if the model
// trains and has no such weights, if an entry of fp8_skip names none, or if their scales or, on a GPU, their
// sizes are not those of such products.
void multiply_in_fp8(const BuiltModel&, const RunConfig&);

}  // namespace ft
