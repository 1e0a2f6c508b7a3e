#include "engine/cpu/kernels/leaf.h"

#include "engine/cpu/kernels/leaf_functions.h"

namespace ft::cpu::FT_TARGET {

extern const LeafKernels leaf_kernels;
constexpr LeafKernels leaf_kernels{
    .fill = fill,
    .add = add,
    .cast = cast,
    .dropout = dropout,
    .gated = gated,
    .gated_grad = gated_grad,
    .column_sums = column_sums,
    .rms_norm = rms_norm,
    .rms_norm_grad = rms_norm_grad,
    .rope = rope,
    .embedding_grad = embedding_grad,
    .cross_entropy = cross_entropy,
    .sum = sum,
    .sum_squares = sum_squares,
    .adamw = adamw,
    .sgd = sgd,
};

}  // namespace ft::cpu::FT_TARGET
