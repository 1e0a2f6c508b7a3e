#include "app/assembly/class_model.h"

#include <nlohmann/json.hpp>

#include "app/assembly/family.h"
#include "app/assembly/reward_model.h"
#include "engine/files/json.h"
#include "engine/train/objectives/list.h"

namespace ft {
namespace {

// Dropout of the states before transformers' head of tokens' classes.
float classifier_dropout(const Json& config) {
  for (const char* key : {"classifier_dropout", "hidden_dropout"})
    if (const auto at = config.find(key); at != config.end() && at->is_number()) return at->get<float>();
  return 0.1f;
}

void classify_tokens(MadeModel& made, const Classes& classes, const std::string& config_json) {
  ModelInfo& info = made.info;
  if (info.token_classifier.empty())
    throw UserError(
        Exit::config,
        str("objective.task_type: ft has no ", info.model_type,
            " model that gives tokens classes; TOKEN_CLS is for other families (docs/classify.md)"));
  EmbeddingAndHead& ends = made.model->vocabulary();
  ends.score_instead(info.token_classifier, classes.size(), true);
  ends.head.dropout.p = classifier_dropout(read_json(config_json));
  info.architecture = model_stem(info) + "ForTokenClassification";
}

void embed(MadeModel& made, const EmbedSettings& c) {
  EmbeddingAndHead& ends = made.model->vocabulary();
  for (const std::int64_t dim : c.matryoshka_dims)
    if (dim > ends.head.lm_head.in)
      throw UserError(Exit::config, str("objective.matryoshka_dims: ", dim,
                                        " columns; the model's states have ", ends.head.lm_head.in));
  ends.embed_instead();
  made.info.architecture = model_stem(made.info) + "Model";
  made.info.stored.skip.push_back(made.info.head_weight());
  made.info.tied_head = false;
}

}  // namespace

void replace_head(MadeModel& made, const ObjectiveConfig& c, const std::string& config_json) {
  require_family(c, made.info.decoder.has_value());
  if (c.type == &objectives::kEmbed) return embed(made, c);
  if (c.type != &objectives::kClassify) return make_reward_model(made);
  const Classes classes = classes_of(c);
  if (classes.task == ClassifyTask::token)
    classify_tokens(made, classes, config_json);
  else
    make_reward_model(made, classes.size());
  made.info.head = made.model->vocabulary().head.lm_head.name;
  made.info.never_quantized.push_back(made.info.head);
  made.info.tied_head = false;
}

std::string headed_config(const std::string& config_json, const ObjectiveConfig& c, const ModelInfo& info,
                          std::optional<std::int32_t> padding) {
  if (c.type == &objectives::kReward) return reward_config(config_json, info.architecture, *padding);
  Json j = Json::parse(config_json);
  j["architectures"] = {info.architecture};
  if (c.type == &objectives::kEmbed) return json_text(j) + "\n";
  const Classes classes = classes_of(c);
  j["id2label"] = j["label2id"] = Json::object();
  for (std::size_t i = 0; i < classes.names.size(); ++i) {
    j["id2label"][std::to_string(i)] = classes.names[i];
    j["label2id"][classes.names[i]] = i;
  }
  if (classes.task == ClassifyTask::sequence) j["problem_type"] = name_of(classes.problem);
  if (padding) j["pad_token_id"] = *padding;
  return json_text(j) + "\n";
}

}  // namespace ft
