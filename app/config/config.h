// RunConfig: the tree of all settings, with one member for each section of a run's JSON. The struct of each
// section is defined beside the code that uses it.
#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/config/hub_folders.h"
#include "data/config.h"
#include "data/efficiency/config.h"
#include "engine/core/rules.h"
#include "engine/generate/config.h"
#include "engine/layers/config.h"
#include "engine/ops/device.h"
#include "engine/train/config.h"
#include "engine/train/objectives/config.h"
#include "engine/zero/config.h"
#include "lora/config.h"

namespace ft {

namespace deepspeed {
struct Report;
}

constexpr auto words(Device::Kind) {
  using enum Device::Kind;
  return to_words<Device::Kind>({{cpu, "cpu"}, {cuda, "cuda"}});
}

enum class AttnImplementation : std::uint8_t { automatic, flash, cudnn };
constexpr auto words(AttnImplementation) {
  using enum AttnImplementation;
  return to_words<AttnImplementation>({{automatic, "auto"},
                                       {automatic, "sdpa"},
                                       {flash, "flash"},
                                       {flash, "flash_attention_2"},
                                       {flash, "flash_attention_3"},
                                       {cudnn, "cudnn"}});
}

// Type of the frozen linears in memory.
enum class FrozenType : std::uint8_t { automatic, fp8 };
constexpr auto words(FrozenType) {
  using enum FrozenType;
  return to_words<FrozenType>({{automatic, "auto"}, {fp8, "fp8"}});
}

struct BaseModelConfig {
  std::string model_name_or_path;                     // a folder, or an id of the hub
  std::optional<std::string> tokenizer_name_or_path;  // a folder, or an id of the hub; empty: the model's
  std::optional<std::string> revision;                // branch, tag or commit of a hub id; empty: main
  bool download = false;                              // fetch missing ids, of data sets too
  std::optional<DType> torch_dtype;                   // empty: auto
  FrozenType frozen_dtype = FrozenType::automatic;
  AttnImplementation attn_implementation = AttnImplementation::automatic;
  JsonText rope_scaling;
  std::optional<std::int64_t> resize_token_embeddings_to_multiple_of;
  std::optional<double> capacity_factor;  // empty: experts take every token
  SparseAttentionConfig sparse_attention;
  std::shared_ptr<const std::string> unpacked;  // folder of the unpacked GGUF file; null: not GGUF

  // Returns the folder; for a hub id, its folder in the hub's cache. Throws UserError (input) if the cache
  // does not have it.
  const std::string& folder() const { return unpacked ? *unpacked : folders.at(model_name_or_path); }
  const std::string& tokenizer() const {
    return tokenizer_name_or_path ? folders.at(*tokenizer_name_or_path) : folder();
  }
  HubFolders folders;

  void fields(auto& f) {
    f("model_name_or_path", model_name_or_path,
      "A Hugging Face model folder: config.json, safetensors, tokenizer. Or the id of a model in the hub's "
      "cache: meta-llama/Llama-2-7b-hf. Or a GGUF file.",
      required(), not_empty(), is_path_or_hub_id(), aka({"model", "base_model"}));
    f("tokenizer_name_or_path", tokenizer_name_or_path, "Folder or id of the tokenizer; null: the model's.",
      is_path_or_hub_id(), aka({"tokenizer"}));
    f("revision", revision, "With an id of the hub: a branch, tag or commit; null: main.", not_empty());
    f("download", download,
      "Fetch models, tokenizers and data sets that are named by ids and missing in the hub's cache, as ft "
      "pull "
      "does.");
    f("torch_dtype", torch_dtype, "Type of the frozen weights in memory; auto: the type of the computation.",
      or_auto(), one_of({DType::f32, DType::bf16, DType::f16}), aka({"dtype"}));
    f("frozen_dtype", frozen_dtype,
      "Type of the frozen linears in memory. fp8: e4m3 with a scale for each output, half of 16 bits; the "
      "head, norms and embeddings keep their type. auto: as the model's files have them if those are in 4 or "
      "8 bits, else torch_dtype.");
    f("attn_implementation", attn_implementation,
      "Attention kernel. flash: ft's own, which never stores the scores of all pairs. cudnn: NVIDIA's, on "
      "GPUs, for bf16 and f16 without dropout, if it has a deterministic plan that fits.",
      later({"eager"}));
    f("rope_scaling", rope_scaling, "Replaces config.json's rope_scaling.", only_default());
    f("resize_token_embeddings_to_multiple_of", resize_token_embeddings_to_multiple_of,
      "Add rows to embedding and head up to a multiple of this; null: none.", at_least(1));
    f("capacity_factor", capacity_factor,
      "Mixtures of experts, in training: most tokens of a micro-batch that an expert takes, as a multiple of "
      "an equal share. It takes its first tokens and adds nothing to the others; null: all tokens.",
      above(0), at_most(1e6));
    f("sparse_attention", sparse_attention,
      "Attention to some blocks of tokens only: DeepSpeed's sparse_attention.");
  }
};

enum class SweepOrder : std::uint8_t { given, shuffled };
constexpr auto words(SweepOrder) {
  using enum SweepOrder;
  return to_words<SweepOrder>({{given, "given"}, {shuffled, "shuffled"}});
}

enum class OnFailure : std::uint8_t { go_on, stop };
constexpr auto words(OnFailure) {
  using enum OnFailure;
  return to_words<OnFailure>({{go_on, "continue"}, {stop, "stop"}});
}

struct SweepConfig {
  JsonText grid;     // {"dotted.path": [values]}
  JsonText bundles;  // [{"dotted.path": value}]
  SweepOrder order = SweepOrder::given;
  OnFailure on_failure = OnFailure::go_on;

  void fields(auto& f) {
    f("grid", grid, "Values to combine, {\"section.setting\": [values]}: one run for each combination.");
    f("_", bundles, "Sets of settings that change together: [{\"section.setting\": value}].");
    f("order", order, "Order of the runs.");
    f("on_failure", on_failure, "Action after a failed run.");
  }
};

struct TuneConfig {
  JsonText space;  // {"dotted.path": [values]}

  void fields(auto& f) {
    f("space", space, "Values to try, {\"section.setting\": [values]}; a single value fixes the setting.");
  }
};

enum class FinetuningType : std::uint8_t { lora, full };
constexpr auto words(FinetuningType) {
  using enum FinetuningType;
  return to_words<FinetuningType>({{lora, "lora"}, {full, "full"}});
}

struct RunConfig {
  std::string schema;
  BaseModelConfig model;
  lora::QuantizationConfig quantization;
  lora::LoraConfig lora;
  FinetuningType finetuning_type = FinetuningType::lora;
  ObjectiveConfig objective;
  Device::Kind device = Device::Kind::cpu;
  DataConfig data;
  DataEfficiencyConfig data_efficiency;
  TrainingConfig training;
  ZeroConfig zero_optimization;
  std::optional<std::int64_t> zero_stage;
  DistributedConfig distributed;
  EvaluationConfig evaluation;
  CheckpointingConfig checkpointing;
  LoggingConfig logging;
  GenerationConfig generation;
  SweepConfig sweep;
  TuneConfig tune;
  JsonText deepspeed;

  bool usual_rate = false;  // the learning rate is the objective's default

  bool on_gpu() const { return device == Device::Kind::cuda; }
  DType dtype() const { return training.dtype(on_gpu()); }  // dtype of activations and of frozen weights
  TrainConfig train() const {
    return {training, evaluation, checkpointing, logging,
            zero_optimization.offload_optimizer.delayed_update_after};
  }

  void fields(auto& f) {
    f("$schema", schema, "JSON Schema for editors; ft ignores it.");
    f("model", model, "The base model.");
    f("quantization", quantization, "Frozen weights in 4 bits, as in bitsandbytes.");
    f("lora", lora, "The adapter: PEFT's LoraConfig.");
    f("finetuning_type", finetuning_type,
      "Weights to train: an adapter (lora), or all weights of the model (full).");
    f("objective", objective, "The loss to minimise: names and defaults of TRL's trainers.");
    f("device", device, "Device that computes: the CPU, or an NVIDIA GPU.");
    f("data", data, "The training and evaluation data.");
    f("data_efficiency", data_efficiency, "Curriculum learning: DeepSpeed's names.");
    f("training", training, "The training run: names of Hugging Face's TrainingArguments.");
    f("zero_optimization", zero_optimization, "Sharding among ranks, and offload: DeepSpeed's names.");
    f("zero_stage", zero_stage, "Short name of zero_optimization.stage.", at_least(0), at_most(3));
    f("distributed", distributed, "Ranks and their communication; no effect with one rank.");
    f("evaluation", evaluation, "Evaluation on held-out data while training.");
    f("checkpointing", checkpointing, "Checkpoints saved while training.");
    f("logging", logging, "Screen output and logs.");
    f("generation", generation,
      "Generation of answers (ft generate, predict_with_generate): names of Hugging Face's "
      "GenerationConfig.");
    f("sweep", sweep, "The runs of ft sweep.");
    f("tune", tune, "The search of ft tune.");
    f("deepspeed", deepspeed,
      "DeepSpeed's JSON, as a file name or an object: its settings are added to these (docs/deepspeed.md), "
      "as with --deepspeed.",
      aka({"deepspeed_config", "ds_config"}));
  }
};

// The ranks of a run. DeepSpeed's train_batch_size depends on them.
struct StepRanks {
  int ranks = 0;        // 0: as `distributed` says
  bool trains = false;  // its batch numbers must agree with the ranks
};

// Reads a configuration and applies overrides ("a.b=c": c is JSON if it parses, else a string). Makes
// relative paths relative to the working folder. Throws UserError (config) with every mistake in the file, by
// line and name; throws deepspeed::Refused if DeepSpeed's file is refused.
RunConfig load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                      StepRanks size = {});

// A configuration, and the report on DeepSpeed's file; null: no such file was given.
struct ReportedConfig {
  RunConfig config;
  std::shared_ptr<deepspeed::Report> deepspeed;
};
ReportedConfig load_reported(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                             StepRanks size = {});

// Reads a configuration from a text. Errors call it `name`; relative paths in it are relative to `folder`.
RunConfig parse_config(const std::string& text, const std::string& name, const std::filesystem::path& folder,
                       const std::vector<std::string>& overrides);

// The two steps of load_config: reading the file's settings and the overrides into a tree, and making a
// RunConfig of the tree.
struct SettingsText;
SettingsText read_settings_tree(const std::filesystem::path& file, const std::vector<std::string>& overrides);
RunConfig config_of(const SettingsText& tree, const std::filesystem::path& folder, StepRanks size = {});

// Call after `path` got a value in this tree. If `path` is an offload device that is not nvme, removes the
// nvme_path beside it, which was set for another value.
void settle_offload(SettingsText& tree, const std::string& path);

// Returns all settings as JSON, defaults included. Paths are absolute, so that the JSON means the same in any
// folder.
std::string effective_config(const RunConfig& config);

}  // namespace ft
