#include "app/config/config.h"

#include <algorithm>
#include <functional>

#include "app/config/start_adapter.h"
#include "engine/core/four_bit.h"
#include "engine/io/fields.h"
#include "engine/io/file.h"
#include "engine/io/json.h"
#include "models/registry.h"

namespace ft {
namespace {

constexpr std::int64_t kLargest = 1 << 20;  // bytes of a configuration

// That makes training compute in this type.
std::string setting_for(DType dtype, const RunConfig& c) {
  const TrainingConfig& t = c.training;
  if (dtype == DType::bf16) return t.fp16 ? "training.fp16=false training.bf16=true" : "training.bf16=true";
  if (dtype == DType::f16)
    return t.bf16 == true ? "training.bf16=false training.fp16=true" : "training.fp16=true";
  if (!t.fp16) return "training.bf16=false";
  return t.bf16.value_or(c.on_gpu()) ? "training.fp16=false training.bf16=false" : "training.fp16=false";
}

// What no single setting can say.
// Products are in the type of training, which is asked for once or twice the same.
void check_quantization(RunConfig& c, bool dtype_given, const std::string& name) {
  if (!c.quantization.load_in_4bit) return;
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::config, printable(name) + ": " + what);
  };
  lora::QuantizationConfig& q = c.quantization;
  if (c.finetuning_type == FinetuningType::full)
    refuse("quantization.load_in_4bit: 4-bit weights cannot be trained; set finetuning_type to lora");
  if (!is_four_bit_block(q.blocksize))
    refuse(str("quantization.blocksize: ", q.blocksize, " is not a power of two"));
  const DType dtype = c.dtype();
  if (dtype_given && q.bnb_4bit_compute_dtype != dtype)
    refuse(str("quantization.bnb_4bit_compute_dtype ", name_of(q.bnb_4bit_compute_dtype),
               " with training in ", name_of(dtype), " is not available yet; set ",
               setting_for(q.bnb_4bit_compute_dtype, c), " or leave bnb_4bit_compute_dtype out"));
  q.bnb_4bit_compute_dtype = dtype;
}

void check_predictions(const RunConfig& c, const std::function<void(const std::string&)>& refuse) {
  const EvaluationConfig& e = c.evaluation;
  const std::string& best = e.metric_for_best_model;
  const bool best_of_text = !best.ends_with("loss") && !best.ends_with("perplexity");
  const auto none = [](const std::string& setting, const std::string& name) {
    return setting + ": " + name +
           " is measured on generated text; set evaluation.predict_with_generate=true";
  };
  if (!e.predict_with_generate) {
    for (const Metric metric : e.metrics)
      if (of_text(metric)) refuse(none("evaluation.metrics", name_of(metric)));
    if (best_of_text) refuse(none("evaluation.metric_for_best_model", best));
    return;
  }
  if (c.data.eval_datasets.empty() && c.data.val_set_size == 0)
    refuse(
        "evaluation.predict_with_generate: there is nothing to answer; set data.val_set_size or "
        "data.eval_datasets");
  const auto measured = [&](Metric metric) {
    return best.find(name_of(metric)) !=
           std::string::npos;  // rouge stands for rouge1, rouge2, rougeL, rougeLsum
  };
  const std::vector<Metric> metrics = e.text_metrics();
  if (best_of_text && std::none_of(metrics.begin(), metrics.end(), measured))
    refuse(str("evaluation.metric_for_best_model: ", best, " is not in evaluation.metrics"));
  if (c.generation.stop_strings) refuse("generation.stop_strings: not with evaluation.predict_with_generate");
  if (c.generation.num_beams == 1)
    for (const auto& [set, name] :
         {std::pair{c.generation.length_penalty != 1, "length_penalty"},
          std::pair{c.generation.early_stopping != EarlyStopping::by_estimate, "early_stopping"}})
      if (set) refuse(str("generation.", name, ": has no effect without generation.num_beams above 1"));
  if (c.generation.num_beams > 1 && c.generation.do_sample)
    refuse("generation.do_sample: beam search does not sample; set generation.num_beams=1");
}

void check_together(RunConfig& c, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::config, printable(name) + ": " + what);
  };
  if (c.zero_stage) {
    if (c.zero_optimization.stage != 0 && c.zero_optimization.stage != *c.zero_stage)
      refuse(str("zero_stage is ", *c.zero_stage, " and zero_optimization.stage is ",
                 c.zero_optimization.stage, "; give one of them"));
    c.zero_optimization.stage = *c.zero_stage;
  }
  if (c.distributed.node_rank >= c.distributed.nnodes)
    refuse(
        str("distributed.node_rank: ", c.distributed.node_rank, " of ", c.distributed.nnodes, " machines"));
  const auto& e = c.evaluation;
  const bool evaluates = e.eval_strategy != EvalStrategy::no;
  if (evaluates && c.data.eval_datasets.empty() && c.data.val_set_size == 0)
    refuse(str("evaluation.eval_strategy is ", name_of(e.eval_strategy),
               " and there is nothing to evaluate on; set data.val_set_size or data.eval_datasets"));
  for (const auto& [wanted, what] :
       {std::pair{e.load_best_model_at_end, "evaluation.load_best_model_at_end"},
        std::pair{e.early_stopping_patience.has_value(), "evaluation.early_stopping_patience"},
        std::pair{c.checkpointing.save_strategy == SaveStrategy::best, "checkpointing.save_strategy best"}})
    if (wanted && !evaluates) refuse(str(what, " needs evaluations; set evaluation.eval_strategy"));
  if (e.load_best_model_at_end && c.checkpointing.save_strategy == SaveStrategy::no)
    refuse("evaluation.load_best_model_at_end needs checkpoints; set checkpointing.save_strategy");
  check_predictions(c, refuse);
  if (c.training.fp16 && c.training.bf16.value_or(false))
    refuse("training.fp16 and training.bf16 are both true; set one of them");
  const auto dtype = c.model.torch_dtype;
  if (dtype && *dtype != c.dtype())
    refuse(str("model.torch_dtype ", name_of(*dtype), " with training in ", name_of(c.dtype()),
               " is not available yet; leave torch_dtype out"));
}

// Without target modules: PEFT's defaults for the family. Mistakes in the model folder are reported by its
// reader.
void choose_targets(RunConfig& c) {
  const std::string file = join_path(c.model.model_name_or_path, "config.json");
  try {
    if (!path_exists(file)) return;
    if (auto targets = read_lora_targets(file); !targets.empty()) c.lora.target_modules = std::move(targets);
  } catch (const UserError&) {
  }
}

SettingsText tree_of(const std::string& text, const std::string& name,
                     const std::vector<std::string>& overrides) {
  SettingsText tree = parse_settings(text, name);
  if (!tree.value.is_object())
    throw UserError(Exit::config, printable(name) + ": a configuration is a JSON object {...}");
  for (const auto& assignment : overrides) override_setting(tree, assignment);
  return tree;
}

}  // namespace

RunConfig config_of(const SettingsText& tree, const std::filesystem::path& folder) {
  auto config = read_settings<RunConfig>(tree, folder);
  const auto given = [&](const char* section, const char* setting) {
    return tree.value.contains(section) && tree.value[section].contains(setting);
  };
  check_quantization(config, given("quantization", "bnb_4bit_compute_dtype"), tree.name);
  check_together(config, tree.name);
  if (!take_adapter_settings(config.lora, tree) && !given("lora", "target_modules")) choose_targets(config);
  return config;
}

RunConfig parse_config(const std::string& text, const std::string& name, const std::filesystem::path& folder,
                       const std::vector<std::string>& overrides) {
  return config_of(tree_of(text, name, overrides), folder);
}

SettingsText read_settings_tree(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides) {
  return tree_of(read_file(file.string(), kLargest, Exit::config), file.string(), overrides);
}

RunConfig load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  RunConfig config = config_of(read_settings_tree(file, overrides), file.parent_path());
  config.file = file;
  return config;
}

std::string effective_config(const RunConfig& config) {
  return write_settings(config).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ft
