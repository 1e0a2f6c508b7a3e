#include "app/ranks/offload.h"

#include "engine/core/error.h"

namespace ft {
namespace {

constexpr std::int64_t kWindow = std::int64_t{1} << 21;  // elements of a window, unless sub_group_size is set

// Returns where values are stored. On CPUs host memory is the device's memory, so that "cpu" changes nothing.
Residence home_of(const OffloadConfig& o, const char* name, bool gpu) {
  if (o.device == OffloadDevice::cpu && gpu) return {.home = Home::host, .pinned = o.pin_memory};
  if (o.device != OffloadDevice::nvme) return {};
  return {Home::file, *o.nvme_path, str("zero_optimization.", name, ".nvme_path")};
}

}  // namespace

std::string idle_homes(const RunConfig& config) {
  const ZeroConfig& z = config.zero_optimization;
  const bool params = z.offload_param.device == OffloadDevice::cpu,
             states = z.offload_optimizer.device == OffloadDevice::cpu && !z.offload_optimizer.delayed_update;
  if (config.on_gpu() || (!params && !states)) return "";
  return str("zero_optimization.", params ? "offload_param" : "", params && states ? " and " : "",
             states ? "offload_optimizer" : "",
             ": device cpu has no effect on CPUs, where everything is in the host's memory");
}

ZeroConfig at_stage(ZeroConfig z, int stage) {
  if (stage == 0 && z.stage != 0) {
    z.mics_shard_size = -1;
    z.offload_optimizer = {};
  }
  if (stage < 3 && z.stage == 3) {
    z.offload_param = ZeroConfig().offload_param;
    z.zero_quantized_weights = z.zero_quantized_gradients = false;
    z.zero_hpz_partition_size = 1;
  }
  z.stage = stage;
  return z;
}

void set_homes(ZeroOptions& options, const RunConfig& config) {
  ZeroConfig z = config.zero_optimization;
  const bool pages =
      config.training.optim->paged_of && config.on_gpu() && z.offload_optimizer.device == OffloadDevice::none;
  if (pages) z.offload_optimizer.device = OffloadDevice::cpu;
  const bool gpu = config.on_gpu();
  options.params_home = home_of(z.offload_param, "offload_param", gpu);
  options.delayed = z.offload_optimizer.delayed_update;
  options.states_home = home_of(z.offload_optimizer, "offload_optimizer", gpu || options.delayed);
  const TrainingConfig& t = config.training;
  // The update has to wait for the norm.
  const bool norm_first = t.max_grad_norm > 0 || t.fp16 || t.on_nonfinite == OnNonFinite::skip;
  options.early = options.states_home.home != Home::device && (gpu || options.delayed || !norm_first);
  if (options.params_home.home == Home::device && options.states_home.home == Home::device) return;
  options.window =
      z.sub_group_size == ZeroConfig().sub_group_size ? kWindow : static_cast<std::int64_t>(z.sub_group_size);
  options.units_ahead = static_cast<int>(z.offload_param.buffer_count);
  options.windows = static_cast<int>(z.offload_optimizer.buffer_count);
}

}  // namespace ft
