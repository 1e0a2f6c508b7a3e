// DeepSpeed's keys of logging and profiling, and the blocks that ft does not have.
#include "app/deepspeed/values.h"

namespace ft::deepspeed {
namespace {

using enum Fate;

constexpr const char* kThroughput = "throughput is always in the log";

constexpr Key kOtherKeys[] = {
    {"steps_per_print", whole(1), mapped, "logging.steps_per_print"},
    {"wall_clock_breakdown", flag("false"), mapped, "logging.wall_clock_breakdown"},
    {"memory_breakdown", flag("false"), mapped, "logging.memory_breakdown"},
    {"dump_state", flag("false"), no_effect, "", "run.json and deepspeed.json lie in the run's folder"},
    {"disable_python_gc", flag("false"), no_effect, "", "there is no Python"},
    {"log_level", text(), no_effect, "", "logging.log_level sets it"},
    {"vocabulary_size", whole(1), no_effect, "", "ft takes it from the model"},
    {"timers.throughput.enabled", flag("true"), no_effect, "", kThroughput},
    {"timers.throughput.synchronized", flag("true"), no_effect, "", kThroughput},
    {"flops_profiler.enabled", flag("false"), mapped, "logging.flops_profiler.enabled"},
    {"flops_profiler.recompute_fwd_factor", number(0, "0.0"), mapped,
     "logging.flops_profiler.recompute_fwd_factor"},
    {"flops_profiler.profile_step", whole(1, "1"), mapped, "logging.flops_profiler.profile_step"},
    {"flops_profiler.module_depth", whole(-1, "-1"), mapped, "logging.flops_profiler.module_depth"},
    {"flops_profiler.top_modules", whole(1, "1"), mapped, "logging.flops_profiler.top_modules"},
    {"flops_profiler.detailed", flag("true"), mapped, "logging.flops_profiler.detailed"},
    {"flops_profiler.output_file", text(), mapped, "logging.flops_profiler.output_file"},
    {"comms_logger.enabled", flag("false"), mapped, "logging.comms_logger.enabled"},
    {"comms_logger.verbose", flag("false"), mapped, "logging.comms_logger.verbose"},
    {"comms_logger.prof_all", flag("true"), mapped, "logging.comms_logger.prof_all"},
    {"comms_logger.debug", flag("false"), mapped, "logging.comms_logger.debug"},
    {"comms_logger.prof_ops", list(), mapped, "logging.comms_logger.prof_ops"},
    {"tensorboard.enabled", flag("false"), mapped, "logging.tensorboard.enabled"},
    {"tensorboard.output_path", text(), mapped, "logging.tensorboard.output_path"},
    {"tensorboard.job_name", text(), mapped, "logging.tensorboard.job_name"},
    {"csv_monitor.enabled", flag("false"), mapped, "logging.csv_monitor.enabled"},
    {"csv_monitor.output_path", text(), mapped, "logging.csv_monitor.output_path"},
    {"csv_monitor.job_name", text(), mapped, "logging.csv_monitor.job_name"},
    {"wandb.enabled", flag("false"), mapped, "logging.wandb.enabled", "an offline run, for wandb sync"},
    {"wandb.project", text(), mapped, "logging.wandb.project"},
    {"wandb.team", text(), mapped, "logging.wandb.entity"},
    {"wandb.group", text(), mapped, "logging.wandb.group"},
    {"comet", any(), block_off,
     "enabled, samples_log_interval, project, workspace, api_key, experiment_name, experiment_key, online, "
     "mode",
     "ft has no Comet; see logging.report_to"},
    {"autotuning", any(), block_off, "*", "use ft tune --config run.json"},
    {"elasticity", any(), block_off,
     "enabled, max_train_batch_size, micro_batch_sizes, min_gpus, max_gpus, min_time, prefer_larger_batch, "
     "version, ignore_non_elastic_batch_info, num_gpus_per_node, model_parallel_size",
     "a run keeps its number of ranks; with training.resume_from_checkpoint=auto it goes on with any other"},
    {"expert_parallel", any(), block_off, "*", "set distributed.expert_parallel_size in run.json"},
    {"sparse_attention", any(), block_off, "*",
     "use model.sparse_attention in run.json, with the same names"},
    {"compression_training", any(), block_off, "*",
     "ft does not prune; distillation is objective.type in run.json"},
    {"weight_quantization", any(), block_off, "*", "use quantization.load_in_4bit in run.json"},
    {"quantize_training", any(), block_off, "*", "use quantization.load_in_4bit in run.json"},
    {"progressive_layer_drop", any(), block_off, "enabled, theta, gamma", "ft drops no layers"},
    {"eigenvalue", any(), block_off, "*", "it serves quantize_training, which ft does not have"},
    {"hybrid_engine", any(), block_off, "*",
     "objective.type=grpo in run.json trains on the run's own answers"},
    {"nebula", any(), block_off, "*", "ft saves to folders"},
    {"datastates", any(), block_off, "*", "ft saves to folders"},
    {"compile", any(), block_off, "*", "ft's kernels are compiled"},
    {"graph_harvesting", any(), block_off, "", "ft records no graphs"},
};

}  // namespace

std::span<const Key> other_keys() { return kOtherKeys; }

}  // namespace ft::deepspeed
