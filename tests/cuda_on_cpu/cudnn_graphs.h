// cuDNN's backend for graphs of attention: every operation computed one after another in plain loops, as its
// documentation says, with NVIDIA's header. Values beyond a product's limits, or beyond a ragged sequence,
// are NaN, which is never written; a plan's workspace is overwritten.
#pragma once
#include "engine/cuda/cudnn/cudnn.h"

namespace cuda_on_cpu {

int cudnn_runs();  // plans executed, so far

}  // namespace cuda_on_cpu
