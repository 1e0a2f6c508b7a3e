// Linears of quantization-aware training: y = x Q(W + V)^T + b. V is the matrix of the adapter, if it takes
// part, and Q gives a matrix the values that it has in the format of the deployed file. W + V is in f32, and
// the matrix is made anew for each product.
//
// Q is flat almost everywhere. The gradient passes it as if it were not there ("straight through", Bengio et
// al. 2013): W and the adapter get the gradients that they have in a Linear with the same input and the same
// gradient of its output, and dx = dy Q(W + V).
#pragma once
#include "engine/layers/linear.h"

namespace ft {

// Returns a Linear's term x Q(W + V)^T, or x Q(W + V), with the matrix in c.scratch.
Term fake_quantized(Ctx&, const Linear&, Tensor x, Trans);

}  // namespace ft
