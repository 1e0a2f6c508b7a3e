// A model whose head gives a score: transformers' *ForSequenceClassification with one label.
#pragma once
#include <cstdint>
#include <string>

#include "app/config/config.h"
#include "lora/config.h"
#include "models/registry.h"

namespace ft {

// Replaces the head by one that gives scores, by default one. Throws UserError (config) if transformers has
// no such model.
void make_reward_model(MadeModel&, std::int64_t scores = 1);
// Returns the stem of the names of transformers' classes for the model, such as Llama.
std::string model_stem(const ModelInfo&);
// Makes an adapter train the full weight of the score, as PEFT's task type does. Removes PEFT's other name
// for this weight, which the model does not have. head: the linear.
void train_score(lora::LoraConfig&, const std::string& head = "score",
                 const std::string& task_type = "SEQ_CLS");

// Returns the padding token; the score of a sequence is read at the last token before it. It is the
// tokenizer's padding, else config.json's, else the end token there. Throws UserError (input) if there is
// none.
std::int32_t padding_token(const BaseModelConfig&);

// Returns config.json, given as text, changed to a reward model's.
std::string reward_config(const std::string& config_json, const std::string& architecture,
                          std::int32_t padding);

}  // namespace ft
