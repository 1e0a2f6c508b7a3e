// training.fp8: products of frozen FP8 weights in FP8.
#pragma once
#include "app/assembly/built_model.h"

namespace ft {

// Lets the model's FP8 weights multiply with rows in FP8. Throws UserError (config) if the model trains and
// has no such weights, or if their scales or, on a GPU, their sizes are not those of such products.
void multiply_in_fp8(const BuiltModel&, const RunConfig&);

}  // namespace ft
