// Keys and values that a layer lends to later layers without k_proj and v_proj. They last for a pass, also if
// blocks keep only their inputs and run again.
#pragma once
#include "engine/core/tensor.h"

namespace ft {

struct LentKeys {
  Tensor k, v;    // (rows, KV D); keys are rotated
  Tensor dk, dv;  // (rows, KV D) f32: sums of the borrowers' gradients; empty in passes without a backward
};

}  // namespace ft
