// Attention by NVIDIA's cuDNN, for the shapes that it supports: bf16 and f16, heads of up to 128 columns, no
// dropout, no gradient of a bias. Results are deterministic: the gradient needs a workspace of (rows, keys)
// for every head. Calls that do not fit into the workspace, or for which cuDNN has no plan on this GPU, are
// refused.
#pragma once
#include <memory>

#include "engine/cuda/gpu.h"
#include "engine/ops/ops.h"

namespace ft::cuda {

class CudnnAttention {
 public:
  virtual ~CudnnAttention() = default;
  // Returns true if it computed the call; ft's own kernels compute refused calls.
  virtual bool forward(const op::Attention&) = 0;
  virtual bool backward(const op::AttentionGrad&) = 0;
};

// workspace: memory of the GPU, `bytes` of it. Throws UserError (hardware) if there is no cuDNN.
std::unique_ptr<CudnnAttention> make_cudnn_attention(Gpu&, std::byte* workspace, std::int64_t bytes);

}  // namespace ft::cuda
