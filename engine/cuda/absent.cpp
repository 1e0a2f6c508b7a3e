// Stands in for the CUDA backend in a build without it.
#include "engine/cuda/cuda_ops.h"

namespace ft {

std::unique_ptr<Ops> make_cuda_ops(int index, const CudaWorkspace&) {
  throw UserError(Exit::hardware, str("device cuda:", index,
                                      ": this ft was built without CUDA; build it where NVIDIA's CUDA "
                                      "toolkit is installed, or use device=cpu"));
}

std::optional<std::string> cuda_version() { return std::nullopt; }

}  // namespace ft
