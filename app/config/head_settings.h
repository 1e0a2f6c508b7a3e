// Settings of classifications and embeddings that follow from the model's folder.
#pragma once
#include "app/config/config.h"

namespace ft {

// Completes settings that the run leaves out: objective.task_type, problem_type, num_labels and id2label from
// config.json, objective.pooling_mode from sentence-transformers' 1_Pooling/config.json. Does nothing if the
// model does not exist yet. Throws UserError (config) if settings contradict each other.
void take_head_settings(RunConfig&);

// Returns the objective that trained a model, or its adapter ("": none), if the result scores or embeds
// texts: from the run.json beside it, else from its files. Empty: it writes texts.
std::optional<ObjectiveConfig> trained_objective(const std::string& model, const std::string& adapter);

// Returns a sentence about trained_objective()'s choice for an adapter that only PEFT's task_type SEQ_CLS
// describes: "ADAPTER: its task_type is ...". Empty for other adapters.
std::string explain_objective(const std::string& model, const std::string& adapter);

// Names of sentence-transformers' files in a model's folder.
inline constexpr const char *kSentenceModules = "modules.json", *kPoolingFolder = "1_Pooling",
                            *kNormalizeFolder = "2_Normalize",
                            *kSentenceSettings = "sentence_bert_config.json",
                            *kSentenceConfig = "config_sentence_transformers.json";

}  // namespace ft
