// Replaces cuDNN in a build without its headers.
#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/cuda/cudnn/cudnn_attention.h"

namespace ft {

std::optional<std::string> cudnn_version() { return std::nullopt; }

namespace cuda {

std::unique_ptr<CudnnAttention> make_cudnn_attention(Gpu&, std::byte*, std::int64_t) {
  throw UserError(Exit::hardware,
                  "model.attn_implementation: this ft was built without cuDNN; build it where NVIDIA's cuDNN "
                  "headers are installed, or leave the setting out");
}

}  // namespace cuda
}  // namespace ft
