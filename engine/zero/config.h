// The settings under `zero_optimization` (DeepSpeed's names) and `distributed`. With one rank all stages are
// equal, and the other settings have no effect.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "engine/core/rules.h"
#include "engine/ranks/encryption.h"
#include "engine/ranks/grid.h"

namespace ft {

enum class OffloadDevice : std::uint8_t { none, cpu, nvme };
constexpr auto words(OffloadDevice) {
  using enum OffloadDevice;
  return to_words<OffloadDevice>({{none, "none"}, {cpu, "cpu"}, {nvme, "nvme"}});
}

struct OffloadConfig {
  OffloadDevice device = OffloadDevice::none;
  bool pin_memory = true;
  std::optional<std::string> nvme_path;
  std::int64_t buffer_count = 4;
  double ratio = 1;

  void fields(auto& f) {
    f("device", device,
      "Place of the data. none: the device; cpu: host memory, which on CPUs is the same; nvme: a file.");
    f("pin_memory", pin_memory, "Pinned host memory, with device cpu on machines with a GPU.");
    f("nvme_path", nvme_path, "With device nvme: folder of an unnamed temporary file.", is_path());
    f("buffer_count", buffer_count,
      "With device nvme: transfers at once, each a unit of parameters or a window of sub_group_size.",
      at_least(1));
    f("ratio", ratio, "Fraction that is offloaded.", only_default());
  }
};

struct OffloadOptimizerConfig : OffloadConfig {
  bool delayed_update = false;
  std::int64_t delayed_update_after = 0;

  void fields(auto& f) {
    OffloadConfig::fields(f);
    f("delayed_update", delayed_update,
      "Apply the gradients of a step during the backward pass of the next one (ZeRO-Offload's delayed "
      "parameter update): faster if the update is slow, with other results.");
    f("delayed_update_after", delayed_update_after,
      "With delayed_update: steps before the first delayed update.", at_least(0));
  }
};

struct ZeroConfig {
  std::int64_t stage = 0;
  OffloadOptimizerConfig offload_optimizer;
  OffloadConfig offload_param;
  bool overlap_comm = true, contiguous_gradients = true, reduce_scatter = true;
  double reduce_bucket_size = 5e8, allgather_bucket_size = 5e8, sub_group_size = 1e9;
  double stage3_prefetch_bucket_size = 5e7, stage3_param_persistence_threshold = 1e5;
  double stage3_max_live_parameters = 1e9, stage3_max_reuse_distance = 1e9;
  bool stage3_gather_16bit_weights_on_model_save = true;
  std::int64_t mics_shard_size = -1;
  bool zero_quantized_weights = false, zero_quantized_gradients = false;
  std::int64_t zero_hpz_partition_size = 1;
  bool round_robin_gradients = false;

  void fields(auto& f) {
    f("stage", stage,
      "State that ranks shard. 0: none; 1: optimizer states; 2: gradients too; 3: parameters too.",
      at_least(0), at_most(3));
    f("offload_optimizer", offload_optimizer,
      "Offload of optimizer states, gradients and f32 master weights; with several ranks at stages 1 to 3.");
    f("offload_param", offload_param, "Offload of parameters; with several ranks at stage 3.");
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
      "With offload: trained elements brought to the device at once; at most 2^21 by default.", at_least(1));
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
      "Several ranks: shard within groups of this many ranks, so that every group holds all shards (MiCS); "
      "-1: over all ranks.",
      at_least(-1));
    f("zero_quantized_weights", zero_quantized_weights,
      "Stage 3: send weight matrices between ranks in 8 bits (ZeRO++'s qwZ).");
    f("zero_quantized_gradients", zero_quantized_gradients,
      "Stage 3: send gradients of matrices in 4 bits (ZeRO++'s qgZ), first within groups of "
      "zero_hpz_partition_size ranks, then between them.");
    f("zero_hpz_partition_size", zero_hpz_partition_size,
      "Stage 3: ranks of a group that holds a second copy of the weights, from which the backward pass "
      "gathers (ZeRO++'s hpZ); 1: no copy.",
      at_least(1));
    f("round_robin_gradients", round_robin_gradients,
      "Several ranks: distribute gradients round-robin, at stage 2 with offload.", only_default());
  }
};

// Transport between ranks. "gloo" is torch's word for tcp.
enum class Backend : std::uint8_t { nccl_if_any, tcp, nccl };
constexpr auto words(Backend) {
  using enum Backend;
  return to_words<Backend>({{nccl_if_any, "auto"}, {tcp, "tcp"}, {tcp, "gloo"}, {nccl, "nccl"}});
}

// Type in which gradients are sent between ranks, in DeepSpeed's words and torch's.
enum class GradientType : std::uint8_t { fp32, bf16, fp16 };
constexpr auto words(GradientType) {
  using enum GradientType;
  return to_words<GradientType>({{fp32, "fp32"},
                                 {bf16, "bf16"},
                                 {fp16, "fp16"},
                                 {fp32, "float32"},
                                 {bf16, "bfloat16"},
                                 {fp16, "float16"}});
}

// Method by which ranks split a sequence. ulysses: around attention they exchange tokens for heads. ring:
// they pass keys and values on.
enum class SequenceParallelType : std::uint8_t { automatic, ulysses, ring };
constexpr auto words(SequenceParallelType) {
  using enum SequenceParallelType;
  return to_words<SequenceParallelType>({{automatic, "auto"}, {ulysses, "ulysses"}, {ring, "ring"}});
}

struct DistributedConfig {
  Backend backend = Backend::nccl_if_any;
  std::optional<std::int64_t> nproc_per_node;  // empty: auto
  std::int64_t nnodes = 1;
  std::int64_t node_rank = 0;
  std::string master_addr = "127.0.0.1";
  std::int64_t master_port = 29500;
  std::int64_t timeout_s = 1800;
  Encryption encryption = Encryption::none;
  GradientType communication_data_type = GradientType::fp32;
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1;
  std::optional<std::int64_t> data_parallel_size;  // empty: the number of ranks divided by the other sizes
  std::int64_t tensor_parallel_size = 1, pipeline_parallel_size = 1, sequence_parallel_size = 1;
  std::int64_t virtual_pipeline_parallel_size = 1, expert_parallel_size = 1;
  SequenceParallelType sequence_parallel_type = SequenceParallelType::automatic;
  bool partition_activations = false;
  SequenceSharing sharing() const {
    return sequence_parallel_type == SequenceParallelType::ring ? SequenceSharing::ring
                                                                : SequenceSharing::ulysses;
  }

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
    f("encryption", encryption,
      "Several ranks: protection of what they send over TCP. auth: bytes that were changed, dropped or "
      "repeated are found; tls: they are also unreadable (TLS 1.3). Both need a secret of all ranks: ft "
      "launch makes one, else it is in FT_TOKEN. What NCCL sends is not covered.");
    f("communication_data_type", communication_data_type,
      "Several ranks: type in which gradients are sent. In 16 bits each rank's part and the sum are rounded; "
      "additions are in float32, and with NCCL rounded after each rank.");
    f("prescale_gradients", prescale_gradients,
      "Several ranks, gradients in 16 bits: divide by the number of ranks before the sum instead of after "
      "it. In float32 that makes no difference.");
    f("gradient_predivide_factor", gradient_predivide_factor,
      "Gradients in 16 bits, without prescale_gradients: divide by this before the sum, and by the remaining "
      "factor after it.",
      above(0), at_most(1e6));
    f("data_parallel_size", data_parallel_size,
      "Ranks with separate micro-batches; null: all ranks divided by the other sizes.", at_least(1),
      aka({"dp_size"}));
    f("tensor_parallel_size", tensor_parallel_size, "Ranks that split each layer.", at_least(1),
      aka({"autotp_size", "tp_size"}));
    f("partition_activations", partition_activations,
      "With tensor_parallel_size: split rows between layers too (Megatron's sequence parallelism), so that "
      "each rank keeps a part of the inputs of blocks and norms.");
    f("pipeline_parallel_size", pipeline_parallel_size, "Ranks that split the layers into stages.",
      at_least(1), aka({"pp_size"}));
    f("virtual_pipeline_parallel_size", virtual_pipeline_parallel_size,
      "With pipeline_parallel_size: chunks of the model on each rank (Megatron's interleaved stages); more "
      "chunks wait less and send more. gradient_accumulation_steps must be a multiple of "
      "pipeline_parallel_size.",
      at_least(1));
    f("expert_parallel_size", expert_parallel_size,
      "Data-parallel ranks that split the experts of each layer.", at_least(1),
      aka({"ep_size", "autoep_size"}));
    f("sequence_parallel_size", sequence_parallel_size,
      "Ranks that split the tokens of each micro-batch, for long sequences.", at_least(1), aka({"sp_size"}));
    f("sequence_parallel_type", sequence_parallel_type,
      "With sequence_parallel_size: method. ulysses: ranks exchange tokens for heads around attention, so "
      "the size must divide the heads; ring: ranks pass keys and values on, for any number of heads; auto: "
      "ulysses.");
  }
};

}  // namespace ft
