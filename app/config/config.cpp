#include "app/config/config.h"

#include <algorithm>
#include <functional>

#include "app/config/from_deepspeed.h"
#include "app/config/gguf_base.h"
#include "app/config/head_settings.h"
#include "app/config/missing_ids.h"
#include "app/config/start_adapter.h"
#include "app/config/together.h"
#include "data/efficiency/schedule.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/layers/attention/sparse_layout.h"
#include "engine/quant/four_bit.h"
#include "engine/settings/fields.h"
#include "engine/train/objectives/objective.h"
#include "engine/train/schedules/schedule.h"
#include "models/registry.h"

namespace ft {
namespace {

constexpr std::int64_t kLargest = 1 << 20;  // bytes of a configuration file

// Returns the settings that make training compute in `dtype`, for a message.
std::string setting_for(DType dtype, const RunConfig& c) {
  const TrainingConfig& t = c.training;
  if (dtype == DType::bf16) return t.fp16 ? "training.fp16=false training.bf16=true" : "training.bf16=true";
  if (dtype == DType::f16)
    return t.bf16 == true ? "training.bf16=false training.fp16=true" : "training.fp16=true";
  if (!t.fp16) return "training.bf16=false";
  return t.bf16.value_or(c.on_gpu()) ? "training.fp16=false training.bf16=false" : "training.fp16=false";
}

// Checks quantization against other settings. Matrix products compute in training's dtype;
// bnb_4bit_compute_dtype may name it again, but not another one.
void check_quantization(RunConfig& c, bool dtype_given, const std::string& name) {
  if (!c.quantization.load_in_4bit) return;
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::config, printable(name) + ": " + what);
  };
  lora::QuantizationConfig& q = c.quantization;
  if (!is_four_bit_block(q.blocksize))
    refuse(str("quantization.blocksize: ", q.blocksize, " is not a power of two"));
  const DType dtype = c.dtype();
  if (dtype_given && q.bnb_4bit_compute_dtype != dtype)
    refuse(str("quantization.bnb_4bit_compute_dtype ", name_of(q.bnb_4bit_compute_dtype),
               " with training in ", name_of(dtype), " is not available yet; set ",
               setting_for(q.bnb_4bit_compute_dtype, c), " or leave bnb_4bit_compute_dtype out"));
  q.bnb_4bit_compute_dtype = dtype;
}

// True if evaluations report `metric` as a column beside the loss.
bool is_column(const ObjectiveConfig& c, const std::string& metric) {
  const std::string name = metric.starts_with("eval_") ? metric.substr(5) : metric;
  if (c.generates()) return name == "reward";
  if (!c.compares() || c.learns_given()) return false;
  const std::vector<std::string> columns = make_objective(c)->columns();
  return std::find(columns.begin(), columns.end(), name) != columns.end();
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
    if (best_of_text && !is_column(c.objective, best)) refuse(none("evaluation.metric_for_best_model", best));
    return;
  }
  const auto measured = [&](Metric metric) {
    return best.find(name_of(metric)) !=
           std::string::npos;  // rouge stands for rouge1, rouge2, rougeL, rougeLsum
  };
  const std::vector<Metric> metrics = e.text_metrics();
  if (best_of_text && std::none_of(metrics.begin(), metrics.end(), measured))
    refuse(str("evaluation.metric_for_best_model: ", best, " is not in evaluation.metrics"));
  if (c.generation.num_beams == 1)
    for (const auto& [set, name] :
         {std::pair{c.generation.length_penalty != 1, "length_penalty"},
          std::pair{c.generation.early_stopping != EarlyStopping::by_estimate, "early_stopping"}})
      if (set) refuse(str("generation.", name, ": has no effect without generation.num_beams above 1"));
  if (c.generation.num_beams > 1 && c.generation.do_sample)
    refuse("generation.do_sample: beam search does not sample; set generation.num_beams=1");
}

// Refuses an answer that leaves no room for a prompt (online objectives).
void check_generating(const RunConfig& c, const std::function<void(const std::string&)>& refuse) {
  if (c.objective.answer_length() >= c.data.max_seq_length)
    refuse(str("objective.max_completion_length: ", c.objective.answer_length(),
               " leaves no room for prompts in data.max_seq_length, ", c.data.max_seq_length));
}

// Refuses settings of generation if a run samples its own answers and generates nothing else.
void check_sampling(const RunConfig& c, const std::function<void(const std::string&)>& refuse) {
  const Json usual = write_settings(GenerationConfig{});
  const Json given = write_settings(c.generation);
  if (c.objective.rollout_server && c.generation.batch_size != GenerationConfig{}.batch_size)
    refuse("generation.batch_size: has no effect with objective.rollout_server, which generates the answers");
  for (const auto& [name, value] : given.items())
    if (name != "batch_size" && value != usual[name])
      refuse(str("generation.", name,
                 ": a run's own answers are sampled as objective.temperature, top_k, top_p, "
                 "min_p and repetition_penalty say; leave it out"));
}

// Checks training.resume_despite: each name must be a setting's path, the last part of one, or a section's.
void check_resume_despite(const TrainingConfig& t, const std::function<void(const std::string&)>& refuse) {
  if (t.resume_despite.empty()) return;
  const std::vector<Setting> all = describe<RunConfig>();
  for (const std::string& name : t.resume_despite)
    if (std::none_of(all.begin(), all.end(),
                     [&](const Setting& s) { return s.path == name || s.path.ends_with("." + name); }))
      refuse(str("training.resume_despite: there is no setting ", printable(name),
                 "; name one as in training.optim"));
}

void check_training(const TrainingConfig& t, const std::function<void(const std::string&)>& refuse) {
  const LossScaling& scaling = t.loss_scaling;
  if (scaling.loss_scale == 0 && scaling.first() < scaling.min_loss_scale)
    refuse(str("training.loss_scaling: the first scale, 2 to the power of ", scaling.initial_scale_power,
               ", is below min_loss_scale ", scaling.min_loss_scale));
}

void check_attention(const BaseModelConfig& c, const std::function<void(const std::string&)>& refuse) {
  try {
    check_sparse_attention(c.sparse_attention);
  } catch (const UserError& error) {
    refuse(error.what());
  }
}

void check_offload(const RunConfig& c, const std::function<void(const std::string&)>& refuse) {
  const ZeroConfig& z = c.zero_optimization;
  const auto check = [&](const OffloadConfig& o, const char* name) {
    const auto no = [&](const std::string& what) { refuse(str("zero_optimization.", name, what)); };
    if (o.device == OffloadDevice::nvme && !o.nvme_path)
      no(".nvme_path: device nvme needs a folder for the file");
    if (o.device != OffloadDevice::nvme && o.nvme_path) no(".nvme_path: is for device nvme; leave it out");
  };
  check(z.offload_optimizer, "offload_optimizer");
  check(z.offload_param, "offload_param");
}

void check_lora(const lora::LoraConfig& c, const std::function<void(const std::string&)>& refuse) {
  if (!lora::start_of(c.init_lora_weights))
    refuse(str("lora.init_lora_weights: there is no \"",
               printable(std::get<std::string>(c.init_lora_weights), 60),
               "\"; there are true, false, gaussian, orthogonal, pissa, pissa_niter_N with N from 1 to 1000, "
               "olora, loftq, eva, lora_ga"));
  lora::trained_tokens(c.trainable_token_indices, "lora.trainable_token_indices", Exit::config);
}

// True if the run itself gives lora.`setting`.
bool names_lora(const SettingsText& tree, const char* setting) {
  const auto section = tree.value.find("lora");
  return section != tree.value.end() && section->is_object() && section->contains(setting);
}

// Refuses settings that the kind of adapter does not have. A default means that there is no such thing,
// except those of lora_alpha and r, which must not be given at all.
void check_kind(const lora::LoraConfig& c, const SettingsText& tree) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::config, printable(tree.name) + ": " + what);
  };
  const lora::AdapterKind& kind = *c.peft_type;
  const Json set = write_settings(c), usual = write_settings(lora::LoraConfig{});
  for (const auto& [setting, value] : set.items()) {
    const bool of_all = setting == "peft_type" || setting == "adapter_name_or_path";
    const bool counts = setting == "lora_alpha" || setting == "r";
    const bool given = value != usual[setting] || (counts && names_lora(tree, setting.c_str()));
    if (!of_all && !kind.key_of(setting.c_str()) && given)
      refuse(str("lora.", setting, ": ", kind.title, " (peft_type ", kind.name,
                 ") has no such setting; leave it out"));
  }
  std::string starts;
  for (const lora::LoraInit init : kind.starts) starts += str(starts.empty() ? "" : ", ", name_of(init));
  const auto start = lora::start_of(c.init_lora_weights);
  if (start && std::ranges::find(kind.starts, start->init) == kind.starts.end())
    refuse(str("lora.init_lora_weights: ", name_of(start->init), " is not a start of ", kind.title,
               "; there are ", starts));
}

void check_starts(const RunConfig& c, const std::function<void(const std::string&)>& refuse) {
  const bool eva = c.lora.init_lora_weights == lora::LoraInitWord(lora::LoraInit::eva);
  if (!eva && c.lora.eva_config != lora::EvaConfig{})
    refuse("lora.eva_config: has no effect without lora.init_lora_weights=eva");
  const bool lora_ga = c.lora.init_lora_weights == lora::LoraInitWord(lora::LoraInit::lora_ga);
  if (!lora_ga && c.lora.lora_ga_config != lora::LoraGaConfig{})
    refuse("lora.lora_ga_config: has no effect without lora.init_lora_weights=lora_ga");
}

void check_settings(RunConfig& c, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::config, printable(name) + ": " + what);
  };
  if (c.zero_stage) {
    if (c.zero_optimization.stage != 0 && c.zero_optimization.stage != *c.zero_stage)
      refuse(str("zero_stage is ", *c.zero_stage, " and zero_optimization.stage is ",
                 c.zero_optimization.stage, "; give one of them"));
    c.zero_optimization.stage = *c.zero_stage;
  }
  check_offload(c, refuse);
  if (c.model.revision && !c.model.folders.is_id(c.model.model_name_or_path))
    refuse("model.revision: only ids of the hub have revisions, and model.model_name_or_path is a path");
  if (c.distributed.node_rank >= c.distributed.nnodes)
    refuse(
        str("distributed.node_rank: ", c.distributed.node_rank, " of ", c.distributed.nnodes, " machines"));
  const CommsLoggerConfig& talk = c.logging.comms_logger;
  if (talk.enabled && !talk.prof_all && talk.prof_ops.empty())
    refuse("logging.comms_logger: prof_all is false and prof_ops names no collective; set one of them");
  check(c.data_efficiency, refuse);
  check(c.objective, refuse);
  check_predictions(c, refuse);
  if (c.objective.generates()) check_generating(c, refuse);
  const bool predicts = c.evaluation.predict_with_generate;
  if (c.objective.generates() || (c.objective.rewrites() && !predicts)) check_sampling(c, refuse);
  check_training(c.training, refuse);
  check_resume_despite(c.training, refuse);
  check_lora(c.lora, refuse);
  check_starts(c, refuse);
  check_attention(c.model, refuse);
  const auto dtype = c.model.torch_dtype;
  if (dtype && *dtype != c.dtype())
    refuse(str("model.torch_dtype ", name_of(*dtype), " with training in ", name_of(c.dtype()),
               " is not available yet; leave torch_dtype out"));
}

// Sets lora.target_modules to PEFT's defaults for the model's family. Settings are also read
// without a model.
void choose_targets(RunConfig& c) {
  if (!c.model.folders.has(c.model.model_name_or_path)) return;
  const std::string file = join_path(c.model.folder(), "config.json");
  if (!path_exists(file)) return;
  if (auto targets = read_lora_targets(file); !targets.empty()) c.lora.target_modules = std::move(targets);
}

// Sets learning rate and schedule to the objective's defaults if the run names none.
void choose_rate(RunConfig& c, const SettingsText& tree) {
  const auto section = tree.value.find("training");
  const auto names = [&](const char* setting) {
    return section != tree.value.end() && section->is_object() && section->contains(setting);
  };
  const UsualRate& usual = c.objective.type->rate;
  c.usual_rate = !names("learning_rate");
  if (c.usual_rate)
    c.training.learning_rate = c.finetuning_type == FinetuningType::lora ? usual.adapter : usual.full;
  if (!names("lr_scheduler_type")) c.training.lr_scheduler_type = usual.schedule;
}

// Sets the rank to the default of the kind of adapter if the run names none.
void choose_rank(lora::LoraConfig& c, const SettingsText& tree) {
  if (!names_lora(tree, "r")) c.r = c.peft_type->rank;
}

// Reads the settings, and finds the folders of models that are named by their hub ids.
RunConfig read_config(const SettingsText& tree, const std::filesystem::path& folder) {
  auto config = read_settings<RunConfig>(tree, folder);
  choose_rate(config, tree);
  choose_rank(config.lora, tree);
  BaseModelConfig& m = config.model;
  m.folders.find(m.model_name_or_path, m.revision, "model.model_name_or_path", folder);
  prepare_base(m);
  take_head_settings(config);
  if (auto& chat = config.data.chat_template; chat && chat->ends_with(".jinja")) chat = home_expanded(*chat);
  if (m.tokenizer_name_or_path && m.tokenizer_name_or_path != m.model_name_or_path)
    m.folders.find(*m.tokenizer_name_or_path, std::nullopt, "model.tokenizer_name_or_path", folder);
  return config;
}

// Runs a check of several settings. Adds the lines of DeepSpeed's file that set them to its error.
void check_with_places(const SettingsText& tree, const std::function<void()>& check) {
  try {
    check();
  } catch (const UserError& wrong) {
    std::string what = wrong.what();
    for (const auto& [path, place] : tree.places)
      if (what.find(path) != what.npos && !place.empty())
        what += str("\n  ", path, " is from ", place.substr(0, place.rfind(": ")));
    throw UserError(wrong.code, what);
  }
}

// Notes the file and line of each dataset's path, for messages.
void note_places(DataConfig& data, const SettingsText& tree) {
  for (auto* list : {&data.datasets, &data.eval_datasets})
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto line =
          tree.lines.find(str("data.", list == &data.datasets ? "datasets." : "eval_datasets.", i, ".path"));
      if (line != tree.lines.end() && line->second > 0) (*list)[i].place = str(tree.name, ":", line->second);
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

ReportedConfig checked(const SettingsText& given_tree, const std::filesystem::path& folder, StepRanks size) {
  SettingsText tree = given_tree;
  RunConfig config = read_config(tree, folder);
  std::shared_ptr<deepspeed::Report> report;
  if (!config.deepspeed.text.empty()) {
    report = take_deepspeed(tree, config, folder, size);
    config = read_config(tree, folder);
  }
  const auto given = [&](const char* section, const char* setting) {
    return tree.value.contains(section) && tree.value[section].contains(setting);
  };
  check_with_places(tree, [&] {
    check_quantization(config, given("quantization", "bnb_4bit_compute_dtype"), tree.name);
    check_settings(config, tree.name);
    check_schedule(config.training, tree);
    make_optimizer(config.training, tree);  // only to report mistakes in optim_args
  });
  const bool goes_on = take_adapter_settings(config.lora, tree);  // may change the kind of adapter
  check_with_places(tree, [&] {
    if (!config.lora.adapter_name_or_path) check_kind(config.lora, tree);
    check_together(config, tree.name);
  });
  if (!goes_on && !given("lora", "target_modules")) choose_targets(config);
  note_places(config.data, tree);
  if (report) settle_report(*report, config);
  return {std::move(config), std::move(report)};
}

// Fetches the models and data that the run names, but only if no check refuses the run. Then reads the
// settings again, since some follow from the model.
ReportedConfig reported(const SettingsText& tree, const std::filesystem::path& folder, StepRanks size) {
  ReportedConfig given = checked(tree, folder, size);
  const bool fetched = given.config.model.download && fetch_missing_ids(given.config);
  if (fetched) given = checked(tree, folder, size);
  return given;
}

}  // namespace

RunConfig config_of(const SettingsText& tree, const std::filesystem::path& folder, StepRanks size) {
  return reported(tree, folder, size).config;
}

RunConfig parse_config(const std::string& text, const std::string& name, const std::filesystem::path& folder,
                       const std::vector<std::string>& overrides) {
  return config_of(tree_of(text, name, overrides), folder);
}

SettingsText read_settings_tree(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides) {
  return tree_of(read_file(file.string(), kLargest, Exit::config), file.string(), overrides);
}

RunConfig load_config(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                      StepRanks size) {
  return load_reported(file, overrides, size).config;
}

ReportedConfig load_reported(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                             StepRanks size) {
  return reported(read_settings_tree(file, overrides), file.parent_path(), size);
}

void settle_offload(SettingsText& tree, const std::string& path) {
  for (const std::string name : {"offload_param", "offload_optimizer"}) {
    const std::string offload = "zero_optimization." + name;
    if (path != offload + ".device") continue;
    auto& home = tree.value["zero_optimization"][name];
    if (home["device"] != "nvme") home.erase("nvme_path");
  }
}

std::string effective_config(const RunConfig& config) {
  Json settings = write_settings(config);
  // Other settings that a kind of adapter lacks are written: their defaults mean that there is no such thing.
  for (const char* counts : {"lora_alpha", "r"})
    if (!config.lora.peft_type->key_of(counts)) settings["lora"].erase(counts);
  return settings.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace ft
