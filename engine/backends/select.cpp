// Creates the Ops for a Device. It is the one file that knows all backends, and therefore a separate library
// (ft_backends).
#include "engine/cpu/cpu_ops.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"

namespace ft {

std::unique_ptr<Ops> make_ops(Device device, const DeviceOptions& options) {
  if (device.kind == Device::Kind::cuda) {
    CudaWorkspace workspace = CudaWorkspace::of(options.attention);
    workspace.fp8_rows = options.fp8_rows;
    return make_cuda_ops(device.index, workspace, options.tuning_file);
  }
  return std::make_unique<cpu::CpuOps>(options.sums);
}

}  // namespace ft
