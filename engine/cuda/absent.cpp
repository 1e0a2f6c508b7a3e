// Replaces the CUDA backend in a build without it.
#include "engine/cuda/cuda_ops.h"
#include "engine/cuda/gpu_depots.h"
#include "engine/cuda/nccl/nccl_communicator.h"
#include "engine/ops/ops.h"

namespace ft {

std::unique_ptr<Ops> make_cuda_ops(int index, const CudaWorkspace&, const std::string&) {
  throw UserError(Exit::hardware, str("device cuda:", index,
                                      ": this ft was built without CUDA; build it where NVIDIA's CUDA "
                                      "toolkit is installed, or use device=cpu"));
}

void use_cuda_libraries(const std::string&) {
  throw UserError(Exit::config, "--cuda-libs: this ft was built without CUDA");
}

std::optional<std::string> nccl_version() { return std::nullopt; }

std::unique_ptr<Communicator> make_nccl_communicator(Ops&, std::unique_ptr<MeshCommunicator>, double,
                                                     const Wire&, std::int64_t) {
  throw InternalError("NCCL in an ft without CUDA");
}

std::shared_ptr<Depot> make_gpu_depot(Ops&, const Residence&) {
  throw InternalError("a GPU's depot in an ft without CUDA");
}

std::optional<std::string> cudnn_version() { return std::nullopt; }

std::optional<std::string> cuda_version() { return std::nullopt; }

}  // namespace ft
