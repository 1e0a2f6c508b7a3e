// DeepSpeed's keys of data efficiency: curriculum learning and random layer token dropping.
#include "app/deepspeed/values.h"

namespace ft::deepspeed {
namespace {

using enum Fate;

constexpr const char* kOwnMeasure = "ft measures the samples itself";
constexpr const char* kNoWorkers = "ft reads data without worker processes";
constexpr const char* kNoModule = "ft takes it from the model and the run";
constexpr const char* kOldEnabled =
    "data_efficiency.enabled, data_efficiency.data_sampling.enabled, "
    "data_efficiency.data_sampling.curriculum_learning.enabled";

constexpr Key kDataKeys[] = {
    {"data_efficiency.enabled", flag("false"), same},
    {"data_efficiency.seed", whole(0, "1234"), same},
    {"data_efficiency.data_sampling.enabled", flag("false"), same},
    {"data_efficiency.data_sampling.num_epochs", whole(1, "1000"), no_effect, "",
     "training.num_train_epochs sets it"},
    {"data_efficiency.data_sampling.num_workers", whole(0, "0"), no_effect, "", kNoWorkers},
    {"data_efficiency.data_sampling.pin_memory", flag("false"), no_effect, "", kNoWorkers},
    {"data_efficiency.data_sampling.dynamic_batching", any(), block_off,
     "enabled, metrics_path, lr_scaling_method, min_batch_size, max_batch_size, sequence_picking_order, "
     "max_tokens, verbose",
     "batches have a fixed number of samples"},
    {"data_efficiency.data_sampling.curriculum_learning.enabled", flag("false"), same},
    {"data_efficiency.data_sampling.curriculum_learning.data_cluster_path", text(), no_effect, "",
     kOwnMeasure},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.index_to_sample_path", text(),
     no_effect, "", kOwnMeasure},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.index_to_metric_path", text(),
     no_effect, "", kOwnMeasure},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.difficulty_type",
     text("value, percentile"), same},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.clustering_type",
     text("single_cluster, schedule_based"), same},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.min_difficulty", whole(1), same},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.max_difficulty", whole(1), same},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_type",
     text("fixed_linear, fixed_root, fixed_discrete"), same},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.total_"
     "curriculum_step",
     whole(1), same},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.difficulty_step",
     whole(1), same},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.root_degree",
     number_above(0), same},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.difficulty",
     list(), same},
    {"data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.*.schedule_config.max_step",
     list(), same},
    {"data_efficiency.data_routing.enabled", flag("false"), same},
    {"data_efficiency.data_routing.random_ltd.enabled", flag("false"), same},
    {"data_efficiency.data_routing.random_ltd.total_layer_num", whole(1), same},
    {"data_efficiency.data_routing.random_ltd.random_ltd_layer_num", whole(0), same},
    {"data_efficiency.data_routing.random_ltd.random_ltd_layer_id", list(), same},
    {"data_efficiency.data_routing.random_ltd.model_mask_name", text(), no_effect, "", kNoModule},
    {"data_efficiency.data_routing.random_ltd.model_type", text("encoder, decoder"), same},
    {"data_efficiency.data_routing.random_ltd.hidden_state_order", text("batch_seq_dim, seq_batch_dim"),
     no_effect, "", kNoModule},
    {"data_efficiency.data_routing.random_ltd.micro_batch_size", whole(1), no_effect, "", kNoModule},
    {"data_efficiency.data_routing.random_ltd.global_batch_size", whole(1), no_effect, "", kNoModule},
    {"data_efficiency.data_routing.random_ltd.random_ltd_schedule.min_value", whole(1), same},
    {"data_efficiency.data_routing.random_ltd.random_ltd_schedule.max_value", whole(1), same},
    {"data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_type", text("fixed_linear"), same},
    {"data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_config.require_steps", whole(1),
     same},
    {"data_efficiency.data_routing.random_ltd.random_ltd_schedule.schedule_config.seq_per_step", whole(1),
     same},
    {"data_efficiency.data_routing.random_ltd.layer_token_lr_schedule", any(), block_off,
     "enabled, total_layer_tokens, warmup_type, warmup_layer_tokens", "the learning rate follows the steps"},
    {"curriculum_learning.enabled", flag("false"), mapped, kOldEnabled},
    {"curriculum_learning.curriculum_type", text("seqlen"), no_effect, "",
     "the block becomes the metric seqlen of data_efficiency"},
    {"curriculum_learning.min_difficulty", whole(1), mapped,
     "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.min_difficulty"},
    {"curriculum_learning.max_difficulty", whole(1), mapped,
     "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.max_difficulty"},
    {"curriculum_learning.schedule_type", text("fixed_linear, fixed_root, fixed_discrete"), mapped,
     "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.schedule_type"},
    {"curriculum_learning.schedule_config.total_curriculum_step", whole(1), mapped,
     "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.schedule_config.total_"
     "curriculum_step"},
    {"curriculum_learning.schedule_config.difficulty_step", whole(1), mapped,
     "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.schedule_config.difficulty_"
     "step"},
    {"curriculum_learning.schedule_config.root_degree", number_above(0), mapped,
     "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.schedule_config.root_"
     "degree"},
    {"curriculum_learning.schedule_config.difficulty", list(), mapped,
     "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.schedule_config."
     "difficulty"},
    {"curriculum_learning.schedule_config.max_step", list(), mapped,
     "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.schedule_config.max_step"},
};

}  // namespace

std::span<const Key> data_keys() { return kDataKeys; }

}  // namespace ft::deepspeed
