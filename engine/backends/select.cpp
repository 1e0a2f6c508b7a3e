// Creates the Ops for a Device. It is the one file that knows all backends, and therefore a separate library
// (ft_backends).
#include "engine/cpu/cpu_ops.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"

namespace ft {

std::unique_ptr<Ops> make_ops(Device device, const DeviceOptions& options) {
  if (device.kind == Device::Kind::cuda)
    return make_cuda_ops(device.index, CudaWorkspace::of(options.attention), options.tuning_file);
  return std::make_unique<cpu::CpuOps>(options.sums);
}

}  // namespace ft
