// Settings under `data_efficiency`, with the names and nesting of DeepSpeed's data efficiency library.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/core/rules.h"

namespace ft {

// Treatment of a sample that is too difficult yet: a part of it is used, or another sample.
enum class ClusteringType : std::uint8_t { single_cluster, schedule_based };
constexpr auto words(ClusteringType) {
  using enum ClusteringType;
  return to_words<ClusteringType>({{single_cluster, "single_cluster"}, {schedule_based, "schedule_based"}});
}

enum class DifficultyType : std::uint8_t { value, percentile };
constexpr auto words(DifficultyType) {
  using enum DifficultyType;
  return to_words<DifficultyType>({{value, "value"}, {percentile, "percentile"}});
}

enum class CurriculumSchedule : std::uint8_t { fixed_linear, fixed_root, fixed_discrete };
constexpr auto words(CurriculumSchedule) {
  using enum CurriculumSchedule;
  return to_words<CurriculumSchedule>(
      {{fixed_linear, "fixed_linear"}, {fixed_root, "fixed_root"}, {fixed_discrete, "fixed_discrete"}});
}

struct CurriculumScheduleConfig {
  std::optional<std::int64_t> total_curriculum_step, difficulty_step;
  std::optional<double> root_degree;
  std::vector<std::int64_t> difficulty, max_step;

  bool operator==(const CurriculumScheduleConfig&) const = default;
  void fields(auto& f) {
    f("total_curriculum_step", total_curriculum_step,
      "fixed_linear, fixed_root: steps from min_difficulty to max_difficulty.", at_least(1));
    f("difficulty_step", difficulty_step,
      "fixed_linear, fixed_root: difficulties are multiples of this, rounded down.", at_least(1));
    f("root_degree", root_degree,
      "fixed_root: the difficulty grows like this root of the step; 2: the square root.", above(0));
    f("difficulty", difficulty, "fixed_discrete: the difficulties, one after another.", at_least(1));
    f("max_step", max_step, "fixed_discrete: the last step of each difficulty but the last.", at_least(1));
  }
};

struct CurriculumMetricConfig {
  std::optional<DifficultyType> difficulty_type;
  std::optional<ClusteringType> clustering_type;
  std::optional<std::int64_t> min_difficulty, max_difficulty;
  std::optional<CurriculumSchedule> schedule_type;
  CurriculumScheduleConfig schedule_config;

  bool operator==(const CurriculumMetricConfig&) const = default;
  bool given() const { return *this != CurriculumMetricConfig{}; }
  void fields(auto& f) {
    f("difficulty_type", difficulty_type,
      "Unit of difficulties: values of the metric, or percentiles of the samples (max_difficulty is then all "
      "samples); null: value.");
    f("clustering_type", clustering_type,
      "Treatment of samples that are still too difficult: cut them (single_cluster), or choose others "
      "(schedule_based); null: vocabularyrarity chooses, other metrics cut.");
    f("min_difficulty", min_difficulty, "Difficulty of the first steps.", at_least(1));
    f("max_difficulty", max_difficulty, "Difficulty at the end of the schedule and after it.", at_least(1));
    f("schedule_type", schedule_type, "Growth of the difficulty with the steps.");
    f("schedule_config", schedule_config, "Parameters of the schedule.");
  }
};

struct CurriculumMetrics {
  CurriculumMetricConfig seqlen, seqlen_reshape, vocabularyrarity;

  // Returns all metrics with their names.
  std::array<std::pair<const char*, const CurriculumMetricConfig*>, 3> all() const {
    return {
        {{"seqlen", &seqlen}, {"seqlen_reshape", &seqlen_reshape}, {"vocabularyrarity", &vocabularyrarity}}};
  }

  void fields(auto& f) {
    f("seqlen", seqlen,
      "Length of a sample in tokens: longer ones are cut to their first tokens, or not chosen yet.");
    f("seqlen_reshape", seqlen_reshape,
      "Length of a sample in tokens: longer ones are split into several sequences, so that no token is "
      "lost.");
    f("vocabularyrarity", vocabularyrarity,
      "Rarity of a sample's tokens in the data: samples with rarer tokens are not chosen yet.");
  }
};

struct CurriculumConfig {
  bool enabled = false;
  CurriculumMetrics curriculum_metrics;

  void fields(auto& f) {
    f("enabled", enabled, "Begin with easy samples.");
    f("curriculum_metrics", curriculum_metrics, "Measures of a sample's difficulty.");
  }
};

struct DataSamplingConfig {
  bool enabled = false;
  CurriculumConfig curriculum_learning;

  void fields(auto& f) {
    f("enabled", enabled, "Use curriculum_learning.");
    f("curriculum_learning", curriculum_learning, "Curriculum learning.");
  }
};

enum class RandomLtdSchedule : std::uint8_t { fixed_linear };
constexpr auto words(RandomLtdSchedule) {
  return to_words<RandomLtdSchedule>({{RandomLtdSchedule::fixed_linear, "fixed_linear"}});
}

enum class RandomLtdModel : std::uint8_t { decoder, encoder };
constexpr auto words(RandomLtdModel) {
  using enum RandomLtdModel;
  return to_words<RandomLtdModel>({{decoder, "decoder"}, {encoder, "encoder"}});
}

struct RandomLtdScheduleNumbers {
  std::int64_t require_steps = 1, seq_per_step = 1;

  void fields(auto& f) {
    f("require_steps", require_steps, "Steps from min_value to max_value.", at_least(1));
    f("seq_per_step", seq_per_step, "Multiple to which the number is rounded down.", at_least(1));
  }
};

struct RandomLtdScheduleConfig {
  std::int64_t min_value = 128, max_value = 512;
  RandomLtdSchedule schedule_type = RandomLtdSchedule::fixed_linear;
  RandomLtdScheduleNumbers schedule_config;

  void fields(auto& f) {
    f("min_value", min_value, "Tokens of each sequence that the first step keeps.", at_least(1));
    f("max_value", max_value,
      "Tokens of each sequence that are kept at the end of the schedule and after it.", at_least(1));
    f("schedule_type", schedule_type, "Growth of the number with the steps.", only_default());
    f("schedule_config", schedule_config, "Parameters of the schedule.");
  }
};

struct RandomLtdConfig {
  bool enabled = false;
  std::int64_t total_layer_num = 0, random_ltd_layer_num = 0;
  std::vector<std::int64_t> random_ltd_layer_id;
  RandomLtdModel model_type = RandomLtdModel::decoder;
  RandomLtdScheduleConfig random_ltd_schedule;

  void fields(auto& f) {
    f("enabled", enabled, "Skip a random part of each sequence in some layers, in training (random-LTD).");
    f("total_layer_num", total_layer_num, "Layers of the model, or of T5's stack.", at_least(0));
    f("random_ltd_layer_num", random_ltd_layer_num, "Number of layers that drop tokens.", at_least(0));
    f("random_ltd_layer_id", random_ltd_layer_id, "Indexes of the layers that drop tokens, from 0.",
      at_least(0));
    f("model_type", model_type, "T5: the stack whose layers drop tokens. Other models are decoders.");
    f("random_ltd_schedule", random_ltd_schedule, "Number of tokens that are kept.");
  }
};

struct DataRoutingConfig {
  bool enabled = false;
  RandomLtdConfig random_ltd;

  void fields(auto& f) {
    f("enabled", enabled, "Use random_ltd.");
    f("random_ltd", random_ltd, "Random layerwise token dropping.");
  }
};

struct DataEfficiencyConfig {
  bool enabled = false;
  std::optional<std::int64_t> seed;
  DataSamplingConfig data_sampling;
  DataRoutingConfig data_routing;

  void fields(auto& f) {
    f("enabled", enabled, "Use data_sampling and data_routing.");
    f("seed", seed, "Seed for the samples that a curriculum chooses; null: data.data_seed.", at_least(0));
    f("data_sampling", data_sampling, "Choice of samples for a step, and of the part of each.");
    f("data_routing", data_routing, "Choice of tokens for each layer.");
  }
};

}  // namespace ft
