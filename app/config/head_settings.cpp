#include "app/config/head_settings.h"

#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/safetensors.h"
#include "engine/settings/fields.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

// Returns the names of config.json's labels by their ids; empty: it has none, or not one for each id.
std::vector<std::string> stored_labels(const Json& config) {
  const auto at = config.find("id2label");
  if (at == config.end() || !at->is_object()) return {};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < at->size(); ++i) {
    const auto name = at->find(std::to_string(i));
    if (name == at->end() || !name->is_string()) return {};
    names.push_back(name->get<std::string>());
  }
  return names;
}

std::string text_in(const Json& config, const char* key) {
  const auto at = config.find(key);
  return at != config.end() && at->is_string() ? at->get<std::string>() : "";
}

bool is_architecture(const Json& config, const char* ending) {
  const auto at = config.find("architectures");
  return at != config.end() && at->is_array() && at->size() == 1 && at->front().is_string() &&
         at->front().get<std::string>().ends_with(ending);
}

// True for a model that gives classes, not one score as a reward model does. transformers leaves id2label out
// if it is its default, two labels.
bool classifies(const Json& config) {
  return is_architecture(config, "ForTokenClassification") ||
         (is_architecture(config, "ForSequenceClassification") &&
          (stored_labels(config).size() != 1 || !text_in(config, "problem_type").empty()));
}

// Returns the rows of the score in a PEFT adapter's file, one for each label. Throws UserError (input) if it
// has none.
std::int64_t labels_in(const std::string& adapter) {
  const SafetensorsFile file(join_path(adapter, "adapter_model.safetensors"));
  for (const StoredTensor& t : file.tensors())
    if (t.name.ends_with(".score.weight") && t.shape.size() == 2) return t.shape[0];
  throw UserError(Exit::input, file.path() +
                                   ": has no score.weight, which adapters of task_type SEQ_CLS "
                                   "have; train it with modules_to_save score");
}

void take_labels(ClassifySettings& c, const Json& config) {
  if (!c.task_type)
    c.task_type =
        is_architecture(config, "ForTokenClassification") ? ClassifyTask::token : ClassifyTask::sequence;
  const std::vector<std::string> stored = stored_labels(config);
  const bool unnamed = c.id2label.empty();
  if (unnamed && !c.num_labels && !stored.empty()) c.num_labels = std::ssize(stored);
  if (unnamed && c.num_labels == std::ssize(stored)) c.id2label = stored;
  if (!c.problem_type) c.problem_type = value_of<ProblemType>(text_in(config, "problem_type"));
  const Classes all = classes_of(c);
  if (!c.num_labels) c.num_labels = all.size();
  c.id2label = all.names;
  c.problem_type = all.problem;
}

// Returns the pooling of 1_Pooling/config.json, in which old versions have a key for each mode; empty: one
// that ft does not have, or several.
std::optional<PoolingMode> stored_pooling(const Json& config) {
  if (const std::string mode = text_in(config, "pooling_mode"); !mode.empty())
    return value_of<PoolingMode>(mode);
  std::vector<std::string> modes;
  for (const auto& [key, value] : config.items())
    if (key.starts_with("pooling_mode_") && value == true) modes.push_back(key);
  if (modes == std::vector<std::string>{"pooling_mode_lasttoken"}) return PoolingMode::lasttoken;
  if (modes == std::vector<std::string>{"pooling_mode_mean_tokens"}) return PoolingMode::mean;
  return {};
}

// Returns true if modules.json has a module that gives vectors the length 1. Throws UserError (input) for
// modules that ft does not compute, such as a Dense.
bool normalizes(const std::string& file) {
  bool found = false;
  for (const Json& module : read_json(file)) {
    const std::string type = text_in(module, "type"), last = type.substr(type.rfind('.') + 1);
    if (last != "Transformer" && last != "Pooling" && last != "Normalize")
      throw UserError(Exit::input,
                      str(file, ": has a module of type \"", printable(type),
                          "\"; ft embeds with Transformer, Pooling and Normalize alone: take the "
                          "others out of the file to embed without them"));
    found = found || last == "Normalize";
  }
  return found;
}

// Reads sentence-transformers' files of a folder: pooling and modules.
void take_sentence_settings(RunConfig& c, const std::string& folder) {
  const std::string pooling = join_path(join_path(folder, kPoolingFolder), "config.json"),
                    modules = join_path(folder, kSentenceModules);
  if (!c.objective.pooling_mode && path_exists(pooling)) {
    c.objective.pooling_mode = stored_pooling(read_json(pooling));
    if (!c.objective.pooling_mode)
      throw UserError(Exit::input, pooling +
                                       ": ft embeds by the last token or by the mean of all tokens; set "
                                       "objective.pooling_mode to lasttoken or mean to replace this mode");
  }
  if (!path_exists(modules)) return;
  const bool normalized = normalizes(modules);
  if (!c.objective.normalize_embeddings) c.objective.normalize_embeddings = normalized;
}

// Decides about an adapter of task_type SEQ_CLS: one label, of a base whose config.json has no problem_type,
// is a reward model, and anything else classifies. A regression without problem_type computes the same score.
ObjectiveConfig sequence_objective(const std::string& model, const std::string& adapter) {
  const std::string config = join_path(model, "config.json");
  const Json base = path_exists(config) ? read_json(config) : Json();
  const std::int64_t labels = labels_in(adapter);
  if (labels == 1 && text_in(base, "problem_type").empty()) return ObjectiveConfig(&objectives::kReward);
  ObjectiveConfig o(&objectives::kClassify);
  o.task_type = ClassifyTask::sequence;
  o.num_labels = labels;
  return o;
}

// True if only PEFT's files tell that an adapter scores sequences.
bool is_bare_sequence_adapter(const std::string& adapter) {
  const std::string peft = join_path(adapter, "adapter_config.json");
  return !adapter.empty() && !path_exists(join_path(adapter, "run.json")) &&
         !path_exists(join_path(adapter, kSentenceModules)) && path_exists(peft) &&
         text_in(read_json(peft), "task_type") == "SEQ_CLS";
}

}  // namespace

void take_head_settings(RunConfig& c) {
  if (!c.objective.type->scores || !c.model.folders.has(c.model.model_name_or_path)) return;
  const std::string file = join_path(c.model.folder(), "config.json");
  if (!path_exists(file)) return;
  if (c.objective.type == &objectives::kClassify) take_labels(c.objective, read_json(file));
  if (c.objective.type != &objectives::kEmbed) return;
  if (const auto& adapter = c.lora.adapter_name_or_path) take_sentence_settings(c, *adapter);
  take_sentence_settings(c, c.model.folder());
  if (!c.objective.pooling_mode) c.objective.pooling_mode = PoolingMode::lasttoken;
}

std::optional<ObjectiveConfig> trained_objective(const std::string& model, const std::string& adapter) {
  const std::string& trained = adapter.empty() ? model : adapter;
  const std::string run = join_path(trained, "run.json"), config = join_path(trained, "config.json"),
                    peft = join_path(trained, "adapter_config.json");
  if (path_exists(run)) {
    const Json began = read_json(run);
    const Json& o = began.contains("objective") ? began["objective"] : Json();
    const std::string type = o.is_object() ? text_in(o, "type") : "";
    for (const ObjectiveKind* kind : ObjectiveKind::all())
      if (kind->name == type)
        return kind->scores ? std::optional(read_settings<ObjectiveConfig>({.value = o, .name = run}, ""))
                            : std::nullopt;
  }
  if (path_exists(join_path(trained, kSentenceModules))) return ObjectiveConfig(&objectives::kEmbed);
  if (!adapter.empty() && path_exists(peft)) {
    const std::string task = text_in(read_json(peft), "task_type");
    if (task == "FEATURE_EXTRACTION") return ObjectiveConfig(&objectives::kEmbed);
    if (task == "TOKEN_CLS") return ObjectiveConfig(&objectives::kClassify);
    if (task == "SEQ_CLS") return sequence_objective(model, adapter);
    return {};
  }
  if (!path_exists(config)) return {};
  const Json j = read_json(config);
  if (classifies(j)) return ObjectiveConfig(&objectives::kClassify);
  if (is_architecture(j, "ForSequenceClassification")) return ObjectiveConfig(&objectives::kReward);
  return {};
}

std::string explain_objective(const std::string& model, const std::string& adapter) {
  if (!is_bare_sequence_adapter(adapter)) return "";
  const ObjectiveConfig o = sequence_objective(model, adapter);
  const std::string begin = str(adapter, ": its task_type is SEQ_CLS and it has no run.json; ");
  if (o.type == &objectives::kReward)
    return begin +
           "it has one label and the base's config.json no problem_type, so it is taken for a reward model "
           "(objective.type=reward)";
  return str(begin, "with ", *o.num_labels, *o.num_labels == 1 ? " label" : " labels",
             " it is taken for a model that classifies (objective.type=classify)");
}

}  // namespace ft
