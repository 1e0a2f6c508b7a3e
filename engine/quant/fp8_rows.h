// Rows of a product's left operand in FP8 (e4m3, fp8.h), quantized when the product runs. The CPU and CUDA
// use the same formulas, and get the same codes. Rowwise scales and the frozen matrix without a gradient are
// torchao's recipe rowwise_with_gw_hp; the folding of the matrix's scales into dy is ft's.
//
// y (m, n) = x (m, k) W^T with W (n, k) in FP8 and a scale w_j for each row of W, an output channel:
//   amax_i = the largest |x_ik| of row i, NaN apart;  s_i = fp8_scale(amax_i)
//   q_ik   = e4m3(x_ik * (1 / s_i)), rounded to the nearest, ties to even, and saturated
//   y_ij   = s_i w_j sum over k of q_ik value(W_jk)
// dx (m, k) = dy (m, n) W: the scales of W belong to the dimension that is summed. They are multiplied into
// dy first, and the codes of W have the scale 1:
//   v_ij   = dy_ij w_j, in f32;  s_i and q_ij of v as above
//   dx_ik  = s_i sum over j of q_ij value(W_jk)
// A row with a NaN or an infinity becomes NaN in y and dx. A row of zeros has the scale 2^-126.
//
// A matrix that is trained is in bf16, and is quantized for each product, as model.frozen_dtype=fp8 quantizes
// it at load: w_j = fp8_scale(amax_j), and W_jk becomes fp8_code(W_jk, w_j); the CPU and CUDA get the same
// codes of finite rows. Its own gradient is a product in bf16, as in the recipe. A matrix that is stored
// inputs first, V = W^T, has scales of its own rows: the two formulas above change places.
//
// Scales, the factor 1 / s_i and codes are operations in f32, one after another; sums are in f32.
#pragma once
#include "engine/quant/fp8.h"

namespace ft {

// 1 / s_i for codes of a row. The scale is at least 2^-126, so this is finite.
FT_HD inline float fp8_inverse(float scale) { return 1.0f / scale; }
FT_HD inline e4m3 fp8_row_code(float element, float inverse) {
  e4m3 code;
  from_float(code, element * inverse);
  return code;
}

}  // namespace ft
