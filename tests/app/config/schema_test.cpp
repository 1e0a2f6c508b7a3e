// The field lists have exactly the names, defaults, limits and choices of the reference schema. Skipped if
// the schema is not next to the repository.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "app/config/config.h"
#include "data/row_formats.h"
#include "engine/files/json.h"
#include "engine/settings/fields.h"
#include "tests/support/source.h"

namespace ft {
namespace {

const std::filesystem::path kReference = source_path("../shared/reference");
const std::filesystem::path kBeside = source_path("../../shared/reference");

std::filesystem::path reference(const std::string& file) {
  return exists(kReference / file) ? kReference / file : kBeside / file;
}

// Maps each path, such as "training.seed", to its part of the schema.
void flatten(const Json& schema, const std::string& path, std::map<std::string, Json>& out) {
  if (!path.empty()) out[path] = schema;
  if (schema.contains("properties"))
    for (const auto& [key, v] : schema["properties"].items())
      flatten(v, path.empty() ? key : path + "." + key, out);
  if (path == "data.datasets")
    for (const auto& [key, v] : schema["items"]["properties"].items()) flatten(v, path + "[]." + key, out);
}

std::string word(const Json& j) { return j.is_string() ? j.get<std::string>() : j.dump(); }

// Settings that ft has in addition to the schema's.
const std::set<std::string> kOurs{"device",
                                  "quantization.load_in_8bit",
                                  "distributed.encryption",
                                  "distributed.communication_data_type",
                                  "distributed.prescale_gradients",
                                  "distributed.gradient_predivide_factor",
                                  "data.datasets[].name",
                                  "data.datasets[].revision",
                                  "deepspeed",
                                  "training.resume_despite",
                                  "data.new_tokens",
                                  "data.new_special_tokens",
                                  "data.tools",
                                  "data.stopping_strategy",
                                  "data.mixture_temperature",
                                  "data.reasoning_content",
                                  "data.ignore_empty_think",
                                  "data.mask_history",
                                  "data.datasets[].report_as",
                                  "data.chat_template_kwargs",
                                  "distributed.tensor_parallel_size",
                                  "distributed.pipeline_parallel_size",
                                  "distributed.virtual_pipeline_parallel_size",
                                  "distributed.sequence_parallel_size",
                                  "distributed.sequence_parallel_type",
                                  "distributed.partition_activations",
                                  "distributed.data_parallel_size",
                                  "distributed.expert_parallel_size",
                                  "model.capacity_factor",
                                  "model.frozen_dtype",
                                  "generation.max_length",
                                  "lora.target_parameters",
                                  "generation.min_length",
                                  "generation.seed",
                                  "generation.batch_size",
                                  "generation.forced_bos_token_id",
                                  "generation.forced_eos_token_id",
                                  "model.download",
                                  "model.revision",
                                  "training.adam_w_mode",
                                  "training.on_nonfinite",
                                  "training.max_nonfinite_steps",
                                  "training.audit_steps",
                                  "checkpointing.async_save",
                                  "training.ema_decay",
                                  "training.loraplus_lr_ratio",
                                  "lora.layers_pattern",
                                  "lora.trainable_token_indices",
                                  "training.embedding_learning_rate",
                                  "training.optim_args",
                                  "training.gemm_tuning",
                                  "training.fp8",
                                  "training.fp8_skip",
                                  "training.qat",
                                  "training.lr_scheduler_kwargs",
                                  "logging.html_report",
                                  "tune",
                                  "tune.space",
                                  "logging.wall_clock_breakdown",
                                  "logging.memory_breakdown",
                                  "logging.steps_per_print",
                                  "zero_optimization.offload_optimizer.ratio",
                                  "zero_optimization.offload_optimizer.delayed_update",
                                  "zero_optimization.offload_optimizer.delayed_update_after",
                                  "zero_optimization.offload_param.ratio",
                                  "zero_optimization.zero_quantized_weights",
                                  "zero_optimization.zero_quantized_gradients",
                                  "zero_optimization.zero_hpz_partition_size",
                                  "lora.ensure_weight_tying",
                                  "lora.peft_type",
                                  "lora.random_seed",
                                  "lora.lora_bias",
                                  "lora.alora_invocation_tokens",
                                  "lora.oft_block_size",
                                  "lora.block_share",
                                  "lora.num_cayley_neumann_terms"};
// Sections that ft has in addition, with DeepSpeed's names.
constexpr std::array kOurSections{"training.loss_scaling",
                                  "logging.tensorboard",
                                  "logging.csv_monitor",
                                  "logging.flops_profiler",
                                  "logging.comms_logger",
                                  "data_efficiency",
                                  "model.sparse_attention",
                                  "training.param_groups",
                                  "lora.eva_config",
                                  "lora.lora_ga_config",
                                  "logging.wandb",
                                  "logging.mlflow",
                                  "objective"};

// Settings whose default in the schema is not available yet.
const std::set<std::string> kNotYet{"training.tf32"};

TEST(Schema, HasEverySetting) {
  std::ifstream in(reference("ft-config.schema.json"));
  if (!in) GTEST_SKIP() << "no reference schema beside the repository";
  std::map<std::string, Json> schema;
  flatten(Json::parse(in), "", schema);
  for (const Setting& s : describe<RunConfig>()) {
    if (s.path.starts_with("data.eval_datasets[]")) continue;  // the schema describes datasets in words
    const auto is_of = [&](const char* section) { return s.path.starts_with(section); };
    if (kOurs.contains(s.path) || std::ranges::any_of(kOurSections, is_of)) continue;
    ASSERT_TRUE(schema.contains(s.path)) << s.path;
    const Json want = schema[s.path];
    if (want.contains("default") && !kNotYet.contains(s.path)) {
      EXPECT_EQ(s.fallback, want["default"]) << s.path;
    }
    schema.erase(s.path);
    if (s.rules.only_default) continue;  // with only one allowed value there is nothing to limit
    const auto limit = [&](const char* name, double bound, bool excluded, bool wanted_excluded) {
      if (!want.contains(name)) return;
      EXPECT_EQ(bound, want[name].get<double>()) << s.path;
      EXPECT_EQ(excluded, wanted_excluded) << s.path;
    };
    limit("minimum", s.rules.low, s.rules.low_excluded, false);
    limit("exclusiveMinimum", s.rules.low, s.rules.low_excluded, true);
    limit("maximum", s.rules.high, s.rules.high_excluded, false);
    limit("exclusiveMaximum", s.rules.high, s.rules.high_excluded, true);
    const Json choices = want.contains("enum")                                      ? want["enum"]
                         : want.contains("items") && want["items"].contains("enum") ? want["items"]["enum"]
                                                                                    : Json();
    for (const Json& choice : choices) {
      if (choice.is_number() || choice.is_boolean()) continue;
      const auto has = [&](const auto& list) {
        return std::find(list.begin(), list.end(), word(choice)) != list.end();
      };
      EXPECT_TRUE(has(s.rules.choices) || has(s.rules.synonyms) || has(s.rules.later) ||
                  (s.rules.or_auto && choice == "auto"))
          << s.path << " " << choice;
    }
  }
  for (const auto& [path, _] : schema) ADD_FAILURE() << path << " is missing";
}

TEST(Schema, TheExampleIsRead) {
  const auto file = reference("ft-config.example.json");
  if (!exists(file)) GTEST_SKIP() << "no reference example beside the repository";
  const RunConfig c = load_config(file, {});
  EXPECT_EQ(c.data.datasets[0].type, &row_formats::kAlpaca);
  EXPECT_EQ(c.zero_optimization.stage, 3);
  EXPECT_EQ(c.lora.r, 16);
  EXPECT_TRUE(c.quantization.load_in_4bit);
}

}  // namespace
}  // namespace ft
