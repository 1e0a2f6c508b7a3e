// The settings under `zero_optimization` (DeepSpeed's names) and `distributed`. With one rank every stage
// means the same and the rest concerns nothing.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/rules.h"

namespace ft {

enum class OffloadDevice : std::uint8_t { none };
constexpr auto words(OffloadDevice) { return to_words<OffloadDevice>({{OffloadDevice::none, "none"}}); }

struct OffloadConfig {
  OffloadDevice device = OffloadDevice::none;
  bool pin_memory = true;
  std::optional<std::string> nvme_path;
  std::int64_t buffer_count = 4;

  void fields(auto& f) {
    f("device", device, "Where to keep it.", later({"cpu", "nvme"}));
    f("pin_memory", pin_memory, "Pinned host memory, with device cpu on machines with a GPU.",
      only_default());
    f("nvme_path", nvme_path, "Its folder, with device nvme.", is_path(), only_default());
    f("buffer_count", buffer_count, "Buffers, with device nvme.", at_least(1), only_default());
  }
};

struct ZeroConfig {
  std::int64_t stage = 0;
  OffloadConfig offload_optimizer, offload_param;
  bool overlap_comm = true, contiguous_gradients = true, reduce_scatter = true;
  double reduce_bucket_size = 5e8, allgather_bucket_size = 5e8, sub_group_size = 1e9;
  double stage3_prefetch_bucket_size = 5e7, stage3_param_persistence_threshold = 1e5;
  double stage3_max_live_parameters = 1e9, stage3_max_reuse_distance = 1e9;
  bool stage3_gather_16bit_weights_on_model_save = true;
  std::int64_t mics_shard_size = -1;
  bool round_robin_gradients = false;

  void fields(auto& f) {
    f("stage", stage, "What ranks shard: 1: optimizer states; 2: gradients too; 3: parameters too.",
      at_least(0), at_most(3));
    f("offload_optimizer", offload_optimizer, "Optimizer states kept elsewhere.");
    f("offload_param", offload_param, "Parameters kept elsewhere, with stage 3.");
    f("overlap_comm", overlap_comm,
      "Several ranks: overlap communication with computation: prefetch parameters, and reduce a unit's "
      "gradients while the next is computed.");
    f("contiguous_gradients", contiguous_gradients, "Several ranks: gradients are contiguous.",
      always("ft's gradients are contiguous"));
    f("reduce_scatter", reduce_scatter, "Several ranks: use reduce-scatter; ft always does.");
    f("reduce_bucket_size", reduce_bucket_size,
      "Several ranks: gradient elements summed at once; sizes the buffers, up to 1 MiB from each rank.",
      at_least(1));
    f("allgather_bucket_size", allgather_bucket_size,
      "Several ranks: elements gathered at once; default only: ft gathers in place.", at_least(1));
    f("sub_group_size", sub_group_size,
      "Several ranks, stage 3: elements updated at once; default only: ft updates in place.", at_least(1));
    f("stage3_prefetch_bucket_size", stage3_prefetch_bucket_size, "Stage 3: elements to prefetch; 0: none.",
      at_least(0));
    f("stage3_param_persistence_threshold", stage3_param_persistence_threshold,
      "Stage 3: parameters with at most this many elements are not sharded.", at_least(0));
    f("stage3_max_live_parameters", stage3_max_live_parameters,
      "Stage 3: prefetch nothing beyond this many unsharded elements, persistent ones included.",
      at_least(0));
    f("stage3_max_reuse_distance", stage3_max_reuse_distance,
      "Stage 3: keep parameters that are used again soon; default only: ft keeps none.", at_least(0));
    f("stage3_gather_16bit_weights_on_model_save", stage3_gather_16bit_weights_on_model_save,
      "Several ranks: save complete models.", always("ft saves complete models"));
    f("mics_shard_size", mics_shard_size,
      "Several ranks: shard within groups of this many ranks, which hold the same (MiCS); -1: over all "
      "ranks.",
      at_least(-1));
    f("round_robin_gradients", round_robin_gradients, "Several ranks, stage 2 with offload.", only_default());
  }
};

// How ranks talk. "gloo" is torch's word for what tcp is here.
enum class Backend : std::uint8_t { nccl_if_any, tcp, nccl };
constexpr auto words(Backend) {
  using enum Backend;
  return to_words<Backend>({{nccl_if_any, "auto"}, {tcp, "tcp"}, {tcp, "gloo"}, {nccl, "nccl"}});
}

struct DistributedConfig {
  Backend backend = Backend::nccl_if_any;
  std::optional<std::int64_t> nproc_per_node;  // empty: auto
  std::int64_t nnodes = 1;
  std::int64_t node_rank = 0;
  std::string master_addr = "127.0.0.1";
  std::int64_t master_port = 29500;
  std::int64_t timeout_s = 1800;

  void fields(auto& f) {
    f("backend", backend,
      "Several ranks: transport. tcp: between hosts (GPU tensors pass through host memory); nccl: NVIDIA's, "
      "between GPUs; auto: nccl if all ranks have GPUs and NCCL, else tcp. gloo is an alias of tcp.",
      later({"mpi"}));
    f("nproc_per_node", nproc_per_node, "Ranks per machine, for ft launch and ft plan.", or_auto(),
      at_least(1));
    f("nnodes", nnodes, "Number of machines, as with ft launch --num_nodes.", at_least(1));
    f("node_rank", node_rank, "Number of this machine, if ft launch is started on each.", at_least(0));
    f("master_addr", master_addr, "Address where rank 0 listens; with the default, ft launch chooses it.",
      not_empty());
    f("master_port", master_port,
      "Port where rank 0 listens; with the default, ft launch takes any free one.", at_least(0),
      at_most(65535));
    f("timeout_s", timeout_s, "Several ranks: seconds to wait for a rank before the run ends.", at_least(1));
  }
};

}  // namespace ft
