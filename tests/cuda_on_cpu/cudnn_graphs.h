// cuDNN's backend for graphs of attention, with NVIDIA's header: computes every operation one after another
// in plain loops, as the documentation describes it. Values beyond a product's limits, or beyond a ragged
// sequence, are NaN and are never written to memory; a run overwrites its workspace.
#pragma once
#include "engine/cuda/cudnn/cudnn.h"

namespace cuda_on_cpu {

int cudnn_runs();  // plans executed so far

}  // namespace cuda_on_cpu
