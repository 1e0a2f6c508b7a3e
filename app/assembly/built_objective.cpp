#include "app/assembly/built_objective.h"

#include <algorithm>
#include <vector>

#include "app/assembly/family.h"
#include "app/assembly/vocabulary.h"
#include "app/config/gguf_base.h"
#include "engine/files/file.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

// Returns true if the adapter that the run starts from changes nothing: every B is zero.
bool all_zero(const BuiltModel& b) {
  std::vector<float> values;
  const auto zero = [&](const Parameter& up) {
    values.assign(static_cast<std::size_t>(up.shape.numel()), 1);
    b.start->read(up, Tensor(reinterpret_cast<std::byte*>(values.data()), DType::f32, up.shape), 0);
    return std::all_of(values.begin(), values.end(), [](float v) { return v == 0; });
  };
  const auto neutral = [&](const lora::LinearAdapter* a) {
    const Parameter* p = a->neutral_at_zero();
    return p && zero(*p);
  };
  return std::ranges::all_of(b.attached.adapters, neutral) &&
         std::ranges::all_of(lora::adapters_of(b.attached.experts),
                             [&](const auto* a) { return zero(a->b); });
}

// Returns true if a new adapter of this configuration changes nothing at first.
bool begins_as_base(const lora::LoraConfig& c) {
  const auto init = lora::start_of(c.init_lora_weights).value().init;
  return init == lora::LoraInit::kaiming || init == lora::LoraInit::gaussian || init == lora::LoraInit::eva;
}

// Returns true if single rows of the embedding are trained. They stay in use while adapters are off.
bool trains_rows(const lora::LoraConfig& c) {
  return !c.trainable_token_indices.text.empty() && c.trainable_token_indices.text != "null";
}

std::unique_ptr<BuiltModel> frozen(const RunConfig& config, Weights weights, const Purpose& purpose) {
  auto b = std::make_unique<BuiltModel>(build_model(config, weights, {}, purpose));
  EachParameter freeze([](Parameter& p) { p.trainable = false; });
  b->model().visit(freeze);
  return b;
}

// Returns the run's configuration with the model in this folder, unchanged. setting: names the folder, for
// errors.
RunConfig other_model(const RunConfig& config, const std::string& folder, const char* setting) {
  RunConfig c = config;
  c.model.model_name_or_path = folder;
  c.model.revision.reset();
  c.model.folders.find(folder, std::nullopt, setting);
  c.model.unpacked.reset();  // belongs to the policy
  prepare_base(c.model);
  c.model.resize_token_embeddings_to_multiple_of.reset();
  c.data.new_tokens = c.data.new_special_tokens = {};
  return c;
}

void require_same_vocabulary(const RunConfig& config, const char* setting, const std::string& folder,
                             const BuiltModel& policy, const BuiltModel& other) {
  const ModelInfo &its = other.made.info, &ours = policy.made.info;
  if (its.decoder.has_value() != ours.decoder.has_value())
    throw UserError(Exit::config, str(setting, ": of it and the model, one is an encoder-decoder"));
  if (its.vocab_size != ours.vocab_size)
    throw UserError(Exit::config, str(setting, ": ", folder, " has a vocabulary of ", its.vocab_size,
                                      " tokens, the model one of ", ours.vocab_size));
  require_same_tokens(config, setting, other.folder);
}

std::unique_ptr<BuiltModel> named(const char* setting, const std::string& folder, const RunConfig& config,
                                  const BuiltModel& policy, Weights weights,
                                  const ObjectiveKind& kind = objectives::kSft, bool load_in_4bit = false) {
  RunConfig c = other_model(config, folder, setting);
  c.finetuning_type = FinetuningType::full;
  c.lora = {};
  c.quantization = {.load_in_4bit = load_in_4bit, .bnb_4bit_compute_dtype = config.dtype()};
  c.model.frozen_dtype = FrozenType::automatic;
  c.training.fp8 = false;
  c.training.qat.reset();
  c.objective = ObjectiveConfig(&kind);
  auto other = frozen(c, weights, {.work = Work::compute});
  require_same_vocabulary(config, setting, folder, policy, *other);
  return other;
}

std::unique_ptr<BuiltModel> named_reference(const RunConfig& config, const BuiltModel& policy,
                                            Weights weights) {
  return named("objective.ref_model_name_or_path", *config.objective.ref_model_name_or_path, config, policy,
               weights);
}

// Returns null if a file holds the teacher's predictions.
std::unique_ptr<BuiltModel> teacher(const RunConfig& config, const BuiltModel& policy, Weights weights) {
  const auto& folder = config.objective.teacher_model_name_or_path;
  return folder ? named("objective.teacher_model_name_or_path", *folder, config, policy, weights) : nullptr;
}

std::unique_ptr<BuiltModel> scorer(const RunConfig& config, const BuiltModel& policy, Weights weights) {
  if (!config.objective.reward_model_name_or_path) return nullptr;
  return named("objective.reward_model_name_or_path", *config.objective.reward_model_name_or_path, config,
               policy, weights, objectives::kReward);
}

// Builds the critic, which is trained like the policy; null: the objective has none. It begins as
// objective.value_model_name_or_path, else as the reward model, else as the policy's base.
std::unique_ptr<BuiltModel> critic(const RunConfig& config, const BuiltModel& policy, Weights weights) {
  const ObjectiveConfig& o = config.objective;
  if (!o.type->critic) return nullptr;
  require_family(o, policy.made.info.decoder.has_value());
  const char* setting = o.value_model_name_or_path ? "objective.value_model_name_or_path"
                                                   : "objective.reward_model_name_or_path";
  const auto& folder = o.value_model_name_or_path ? o.value_model_name_or_path : o.reward_model_name_or_path;
  RunConfig c = folder ? other_model(config, *folder, setting) : config;
  c.objective = ObjectiveConfig(&objectives::kReward);
  c.lora.adapter_name_or_path.reset();
  c.training.qat.reset();
  if (auto& whole = c.lora.modules_to_save) std::erase(*whole, policy.made.info.head);
  auto b = std::make_unique<BuiltModel>(build_model(c, weights));
  if (folder) require_same_vocabulary(config, setting, *folder, policy, *b);
  const double rate = o.critic_learning_rate ? *o.critic_learning_rate / config.training.learning_rate : 1;
  EachParameter scale([&](Parameter& p) { p.rule.rate *= rate; });
  b->model().visit(scale);
  return b;
}

// Builds the policy as the run begins, frozen: from the same files and the same random numbers.
std::unique_ptr<BuiltModel> copy_of_start(const RunConfig& config, Weights weights) {
  return frozen(config, weights, {});
}

// Returns the names under which the log has the losses of datasets. Held-out samples are of the training data
// unless there are datasets for evaluation.
ReportedSources reported(const DataConfig& data) {
  const auto names_of = [](const std::vector<DatasetConfig>& datasets) {
    std::vector<std::string> names;
    for (const DatasetConfig& d : datasets) names.push_back(d.report_as.value_or(""));
    return names;
  };
  return {names_of(data.datasets), names_of(data.eval_datasets.empty() ? data.datasets : data.eval_datasets)};
}

BuiltObjective made(const RunConfig& config) {
  BuiltObjective b;
  if (const auto& file = config.objective.teacher_file) b.taught = std::make_shared<TeacherFile>(*file);
  b.objective = make_objective(config.objective, {.label_smoothing = config.training.label_smoothing_factor,
                                                  .longest = config.data.max_seq_length,
                                                  .taught = b.taught,
                                                  .sources = reported(config.data)});
  return b;
}

}  // namespace

std::unique_ptr<BuiltModel> build_teacher(const RunConfig& config, const std::string& folder,
                                          const BuiltModel& policy, bool load_in_4bit) {
  return named("--model", folder, config, policy, Weights::check, objectives::kSft, load_in_4bit);
}

BuiltObjective build_objective(const RunConfig& config, const BuiltModel& policy, Weights weights) {
  if (config.objective.type != &objectives::kSft && policy.made.info.router_loss)
    throw UserError(
        Exit::config,
        str("objective.type: ", name_of(config.objective.type), " does not add the routers' loss that ",
            join_path(policy.folder, "config.json"), " asks for; set output_router_logits to false there"));
  BuiltObjective b = made(config);
  b.scorer = scorer(config, policy, weights);
  b.critic = critic(config, policy, weights);
  const ObjectiveNeeds needs = config.objective.needs();
  if (needs.teacher) b.reference = teacher(config, policy, weights);
  if (!needs.reference) return b;
  b.precomputes = needs.precomputed;
  if (config.objective.ref_model_name_or_path) {
    b.reference = named_reference(config, policy, weights);
    return b;
  }
  b.is_base = policy.lora && policy.attached.whole.empty() && !trains_rows(policy.lora_config) &&
              (policy.start ? all_zero(policy) : begins_as_base(config.lora));
  if (!b.is_base && !b.precomputes) b.reference = copy_of_start(config, weights);
  return b;
}

BuiltObjective build_evaluated_objective(const RunConfig& began, const BuiltModel& policy) {
  if (began.objective.learns_given())
    throw UserError(Exit::config,
                    str("objective.type: ", name_of(began.objective.type),
                        " on given answers has no evaluation; set what rewards answers that are generated, "
                        "such as objective.reward_funcs"));
  BuiltObjective b = made(began);
  b.scorer = scorer(began, policy, Weights::check);
  const ObjectiveNeeds needs = began.objective.needs();
  if (needs.teacher) b.reference = teacher(began, policy, Weights::check);
  if (!needs.reference) return b;
  if (began.objective.ref_model_name_or_path) {
    b.reference = named_reference(began, policy, Weights::check);
    return b;
  }
  if (!policy.lora)
    throw UserError(Exit::config,
                    str("objective.ref_model_name_or_path: objective.type ", name_of(began.objective.type),
                        " compares with the model that training "
                        "began with; name its folder"));
  const bool base = !began.lora.adapter_name_or_path && !began.lora.modules_to_save &&
                    !trains_rows(began.lora) && began.lora.bias == lora::LoraBias::none &&
                    begins_as_base(began.lora);
  if (!base) b.reference = copy_of_start(began, Weights::check);
  return b;
}

}  // namespace ft
