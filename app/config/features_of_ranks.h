// Features of several ranks that do not go with every other one: ZeRO, offload, parallel axes.
#pragma once
#include "app/config/together.h"
#include "lora/kinds.h"

namespace ft::feature {

inline bool is_elsewhere(const OffloadConfig& o) { return o.device != OffloadDevice::none; }

// ZeRO

inline constexpr Feature kStage0OfRanks{
    .name = "ZeRO stage 0 on several ranks",
    .set = "zero_optimization.stage=0",
    .on = [](const RunConfig& c, int ranks) { return c.zero_optimization.stage == 0 && ranks > 1; },
};

inline constexpr Feature kStage1Or2{
    .name = "ZeRO stage 1 or 2",
    .set = "zero_optimization.stage=2",
    .on = [](const RunConfig& c,
             int) { return c.zero_optimization.stage == 1 || c.zero_optimization.stage == 2; },
};

inline constexpr Feature kStage2Or3{
    .name = "ZeRO stage 2 or 3",
    .set = "zero_optimization.stage=2",
    .on = [](const RunConfig& c, int) { return c.zero_optimization.stage > 1; },
};

inline constexpr Feature kNotStage3{
    .name = "ZeRO stage 0, 1 or 2",
    .set = "zero_optimization.stage=2",
    .on = [](const RunConfig& c, int) { return c.zero_optimization.stage != 3; },
};

inline constexpr Feature kMics{
    .name = "MiCS",
    .set = "zero_optimization.stage=3 zero_optimization.mics_shard_size=2",
    .on = [](const RunConfig& c, int) { return c.zero_optimization.mics_shard_size > 0; },
};

inline constexpr Feature kMicsGroups{
    .name = "MiCS in several groups",
    .set = "zero_optimization.stage=3 zero_optimization.mics_shard_size=2",
    .on =
        [](const RunConfig& c, int ranks) {
          return c.zero_optimization.mics_shard_size > 0 && c.zero_optimization.mics_shard_size < ranks;
        },
};

inline constexpr Feature kQwz{
    .name = "qwZ",
    .set = "zero_optimization.stage=3 zero_optimization.zero_quantized_weights=true",
    .on = [](const RunConfig& c, int) { return c.zero_optimization.zero_quantized_weights; },
};

inline constexpr Feature kQgz{
    .name = "qgZ",
    .set = "zero_optimization.stage=3 zero_optimization.zero_quantized_gradients=true",
    .on = [](const RunConfig& c, int) { return c.zero_optimization.zero_quantized_gradients; },
};

inline constexpr Feature kHpz{
    .name = "hpZ",
    .set = "zero_optimization.stage=3 zero_optimization.zero_hpz_partition_size=2",
    .on = [](const RunConfig& c, int) { return c.zero_optimization.zero_hpz_partition_size > 1; },
};

inline constexpr Feature kPrefetchOfRanks{
    .name = "a prefetch size of its own on several ranks",
    .set = "zero_optimization.stage3_prefetch_bucket_size=1000",
    .on =
        [](const RunConfig& c, int ranks) {
          const double size = c.zero_optimization.stage3_prefetch_bucket_size;
          return ranks > 1 && size > 0 && size != ZeroConfig().stage3_prefetch_bucket_size;
        },
};

inline constexpr Feature kNoOverlap{
    .name = "communication without overlap",
    .set = "zero_optimization.overlap_comm=false",
    .on = [](const RunConfig& c, int) { return !c.zero_optimization.overlap_comm; },
};

// Offload

inline constexpr Feature kOffloadParam{
    .name = "offload_param",
    .set =
        "zero_optimization.stage=3 "
        "zero_optimization.offload_param.nvme_path=. "
        "zero_optimization.offload_param.device=nvme",
    .on = [](const RunConfig& c, int) { return is_elsewhere(c.zero_optimization.offload_param); },
};

inline constexpr Feature kOffloadOptimizer{
    .name = "offload_optimizer",
    .set =
        "zero_optimization.stage=1 "
        "zero_optimization.offload_optimizer.nvme_path=. "
        "zero_optimization.offload_optimizer.device=nvme",
    .on = [](const RunConfig& c, int) { return is_elsewhere(c.zero_optimization.offload_optimizer); },
};

inline constexpr Feature kStatesHere{
    .name = "states on the device",
    .set = "zero_optimization.offload_optimizer.device=none",
    .on = [](const RunConfig& c, int) { return !is_elsewhere(c.zero_optimization.offload_optimizer); },
};

inline constexpr Feature kNoOffload{
    .name = "no offload",
    .set = "zero_optimization.offload_param.device=none",
    .on =
        [](const RunConfig& c, int) {
          return !is_elsewhere(c.zero_optimization.offload_param) &&
                 !is_elsewhere(c.zero_optimization.offload_optimizer);
        },
};

// Device cpu moves nothing on CPUs, except with delayed updates. Paged optimizers move states on GPUs.
inline constexpr Feature kMoved{
    .name = "offload that moves something",
    .set =
        "zero_optimization.stage=3 "
        "zero_optimization.offload_param.nvme_path=. "
        "zero_optimization.offload_param.device=nvme",
    .on =
        [](const RunConfig& c, int) {
          const OffloadOptimizerConfig& states = c.zero_optimization.offload_optimizer;
          const auto moves = [](const OffloadConfig& o, bool cpu_is_elsewhere) {
            return o.device == OffloadDevice::nvme || (o.device == OffloadDevice::cpu && cpu_is_elsewhere);
          };
          return moves(c.zero_optimization.offload_param, c.on_gpu()) ||
                 moves(states, c.on_gpu() || states.delayed_update) ||
                 (c.on_gpu() && c.training.optim->paged_of);
        },
};

inline constexpr Feature kDelayed{
    .name = "delayed updates",
    .set =
        "zero_optimization.stage=1 "
        "zero_optimization.offload_optimizer.device=cpu "
        "zero_optimization.offload_optimizer.delayed_update=true",
    .on = [](const RunConfig& c, int) { return c.zero_optimization.offload_optimizer.delayed_update; },
};

inline constexpr Feature kDelayedLater{
    .name = "delayed_update_after",
    .set =
        "zero_optimization.stage=1 "
        "zero_optimization.offload_optimizer.device=cpu "
        "zero_optimization.offload_optimizer.delayed_update=true "
        "zero_optimization.offload_optimizer.delayed_update_after=3",
    .on = [](const RunConfig& c,
             int) { return c.zero_optimization.offload_optimizer.delayed_update_after > 0; },
};

inline constexpr Feature kNotDelayed{
    .name = "updates that are not delayed",
    .set = "zero_optimization.offload_optimizer.delayed_update=false",
    .on = [](const RunConfig& c, int) { return !c.zero_optimization.offload_optimizer.delayed_update; },
};

inline constexpr Feature kSubGroupOfRanks{
    .name = "a window size of its own on several ranks",
    .set = "zero_optimization.sub_group_size=1000",
    .on =
        [](const RunConfig& c, int ranks) {
          return ranks > 1 && c.zero_optimization.sub_group_size != ZeroConfig().sub_group_size;
        },
};

inline constexpr Feature kInputsOnHost{
    .name = "activations on the host",
    .set = "training.gradient_checkpointing=offload",
    .on = [](const RunConfig& c, int) { return c.training.gradient_checkpointing == Checkpointing::offload; },
};

// Parallel axes

inline constexpr Feature kTensor{
    .name = "tensor parallelism",
    .set = "distributed.tensor_parallel_size=2",
    .on = [](const RunConfig& c, int) { return c.distributed.tensor_parallel_size > 1; },
};

inline constexpr Feature kNoTensor{
    .name = "complete layers on each rank",
    .set = "distributed.tensor_parallel_size=1",
    .on = [](const RunConfig& c, int) { return c.distributed.tensor_parallel_size == 1; },
};

inline constexpr Feature kPartition{
    .name = "partitioned activations",
    .set = "distributed.tensor_parallel_size=2 distributed.partition_activations=true",
    .on = [](const RunConfig& c, int) { return c.distributed.partition_activations; },
};

inline constexpr Feature kSequence{
    .name = "sequence parallelism",
    .set = "distributed.sequence_parallel_size=2",
    .on = [](const RunConfig& c, int) { return c.distributed.sequence_parallel_size > 1; },
};

inline constexpr Feature kPipeline{
    .name = "pipeline parallelism",
    .set = "distributed.pipeline_parallel_size=2",
    .on = [](const RunConfig& c, int) { return c.distributed.pipeline_parallel_size > 1; },
};

inline constexpr Feature kNoPipeline{
    .name = "all layers on each rank",
    .set = "distributed.pipeline_parallel_size=1",
    .on = [](const RunConfig& c, int) { return c.distributed.pipeline_parallel_size == 1; },
};

inline constexpr Feature kInterleaved{
    .name = "interleaved stages",
    .set = "distributed.pipeline_parallel_size=2 distributed.virtual_pipeline_parallel_size=2",
    .on = [](const RunConfig& c, int) { return c.distributed.virtual_pipeline_parallel_size > 1; },
};

inline constexpr Feature kExperts{
    .name = "expert parallelism",
    .set = "distributed.expert_parallel_size=2",
    .on = [](const RunConfig& c, int) { return c.distributed.expert_parallel_size > 1; },
};

inline constexpr Feature kShira{
    .name = "SHiRA",
    .set = "lora.peft_type=shira",
    .on =
        [](const RunConfig& c, int) {
          return c.finetuning_type == FinetuningType::lora && c.lora.peft_type == &lora::kinds::kShira;
        },
};

inline constexpr Feature kOft{
    .name = "OFT",
    .set = "lora.peft_type=oft",
    .on =
        [](const RunConfig& c, int) {
          return c.finetuning_type == FinetuningType::lora && c.lora.peft_type == &lora::kinds::kOft;
        },
};

}  // namespace ft::feature
