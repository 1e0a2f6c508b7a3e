// Attention by NVIDIA's cuDNN, for what it takes: bf16 and f16, heads of up to 128 columns, no dropout, no
// gradient of a bias. Deterministic: its gradient needs a workspace of (rows, keys) for every head, and what
// does not fit, or cuDNN has no plan for on this GPU, is not taken.
#pragma once
#include <memory>

#include "engine/cuda/gpu.h"
#include "engine/ops/ops.h"

namespace ft::cuda {

class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  // Whether it was done: what is not taken is left to ft's own kernels.
  virtual bool forward(const op::Attention&) = 0;
  virtual bool backward(const op::AttentionGrad&) = 0;
};

// workspace: bytes of the GPU's memory. UserError(Exit::hardware) where there is no cuDNN.
std::unique_ptr<CudnnAttention> make_cudnn_attention(Gpu&, std::byte* workspace, std::int64_t bytes);

}  // namespace ft::cuda
