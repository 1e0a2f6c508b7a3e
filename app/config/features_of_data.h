// Features of data that do not go with every other one.
#pragma once
#include "app/config/together.h"
#include "data/efficiency/schedule.h"

namespace ft::feature {

inline const CurriculumMetrics& metrics_of(const RunConfig& c) {
  return c.data_efficiency.data_sampling.curriculum_learning.curriculum_metrics;
}

inline constexpr Feature kPacking{
    .name = "packing",
    .set = "data.packing=true",
    .on = [](const RunConfig& c, int) { return c.data.packing; },
};

inline constexpr Feature kPadding{
    .name = "padding to the full length",
    .set = "data.pad_to_max_length=true",
    .on = [](const RunConfig& c, int) { return c.data.pad_to_max_length; },
};

inline constexpr Feature kStreaming{
    .name = "streaming",
    .set = "training.max_steps=100 data.streaming=true",
    .on = [](const RunConfig& c, int) { return c.data.streaming; },
};

inline constexpr Feature kMixes{
    .name = "datasets mixed by shares",
    .set = "data.stopping_strategy=all_exhausted",
    .on = [](const RunConfig& c, int) { return c.data.stopping_strategy.has_value(); },
};

inline constexpr Feature kInOrder{
    .name = "unshuffled data",
    .set = "data.shuffle=false",
    .on = [](const RunConfig& c, int) { return !c.data.shuffle; },
};

inline constexpr Feature kHoldsOut{
    .name = "val_set_size",
    .set = "data.val_set_size=0.1",
    .on = [](const RunConfig& c, int) { return c.data.val_set_size > 0; },
};

inline constexpr Feature kEvalSets{
    .name = "eval_datasets",
    .set = R"(data.eval_datasets=[{"path":"e.jsonl"}])",
    .on = [](const RunConfig& c, int) { return !c.data.eval_datasets.empty(); },
};

inline constexpr Feature kTrainsOnInputs{
    .name = "training on prompts",
    .set = "data.train_on_inputs=true",
    .on = [](const RunConfig& c, int) { return c.data.train_on_inputs; },
};

inline constexpr Feature kMasksHistory{
    .name = "masked history",
    .set = "data.mask_history=true",
    .on = [](const RunConfig& c, int) { return c.data.mask_history; },
};

inline constexpr Feature kReportsSources{
    .name = "losses by dataset",
    .set = R"(data.eval_datasets=[{"path":"e.jsonl","report_as":"e"}])",
    .on =
        [](const RunConfig& c, int) {
          for (const auto* list : {&c.data.datasets, &c.data.eval_datasets})
            for (const DatasetConfig& d : *list)
              if (d.report_as) return true;
          return false;
        },
};

inline constexpr Feature kPrepared{
    .name = "prepared tokens",
    .set = "data.dataset_prepared_path=.",
    .on = [](const RunConfig& c, int) { return c.data.dataset_prepared_path.has_value(); },
};

inline constexpr Feature kKeepsEnd{
    .name = "truncation at the start",
    .set = "data.truncation=keep_end",
    .on = [](const RunConfig& c, int) { return c.data.truncation == Truncation::keep_end; },
};

inline constexpr Feature kRandomLtd{
    .name = "random-LTD",
    .set =
        "data_efficiency.enabled=true "
        "data_efficiency.data_routing.enabled=true "
        "data_efficiency.data_routing.random_ltd.enabled=true",
    .on = [](const RunConfig& c, int) { return has_random_ltd(c.data_efficiency); },
};

inline constexpr Feature kEfficiency{
    .name = "curriculum learning or random-LTD",
    .set =
        "data_efficiency.enabled=true "
        "data_efficiency.data_sampling.enabled=true "
        "data_efficiency.data_sampling.curriculum_learning.enabled=true",
    .on = [](const RunConfig& c,
             int) { return has_curriculum(c.data_efficiency) || has_random_ltd(c.data_efficiency); },
};

inline constexpr Feature kChoosing{
    .name = "a curriculum that chooses samples",
    .set =
        "data_efficiency.enabled=true "
        "data_efficiency.data_sampling.enabled=true "
        "data_efficiency.data_sampling.curriculum_learning.enabled=true "
        "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen.clustering_type="
        "schedule_based",
    .on = [](const RunConfig& c,
             int) { return has_curriculum(c.data_efficiency) && chooses_samples(metrics_of(c)); },
};

inline constexpr Feature kReshaping{
    .name = "seqlen_reshape",
    .set =
        "data_efficiency.enabled=true "
        "data_efficiency.data_sampling.enabled=true "
        "data_efficiency.data_sampling.curriculum_learning.enabled=true "
        "data_efficiency.data_sampling.curriculum_learning.curriculum_metrics.seqlen_reshape.min_difficulty="
        "8",
    .on = [](const RunConfig& c,
             int) { return has_curriculum(c.data_efficiency) && metrics_of(c).seqlen_reshape.given(); },
};

}  // namespace ft::feature
