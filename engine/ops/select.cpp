// From a Device to the Ops that computes on it: the one place that knows all backends, and so a library of
// its own (ft_backends).
#include "engine/cpu/cpu_ops.h"
#include "engine/cuda/cuda_ops.h"

namespace ft {

std::unique_ptr<Ops> make_ops(Device device, const std::string& gemm_tuning) {
  if (device.kind == Device::Kind::cuda)
    return make_cuda_ops(device.index, CudaWorkspace::of(device), gemm_tuning);
  return std::make_unique<cpu::CpuOps>();
}

}  // namespace ft
