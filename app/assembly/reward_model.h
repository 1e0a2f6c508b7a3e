// A model whose head gives a score: transformers' *ForSequenceClassification with one label.
#pragma once
#include <cstdint>
#include <string>

#include "app/config/config.h"
#include "lora/config.h"
#include "models/registry.h"

namespace ft {

inline constexpr const char* kScore = "score.weight";

// Replaces the head by one that gives a score. Throws UserError (config) if the model is an encoder-decoder.
void make_reward_model(MadeModel&);
// Makes an adapter train the full weight of the score, as PEFT's task type SEQ_CLS does. Removes PEFT's other
// name of it, classifier, which no model here has.
void train_score(lora::LoraConfig&);

// Returns the padding token; the score of a sequence is read at the last token before it. It is the
// tokenizer's padding, else config.json's, else the end token there. Throws UserError (input) if there is
// none.
std::int32_t padding_token(const BaseModelConfig&);

// Returns config.json, given as text, changed to a reward model's.
std::string reward_config(const std::string& config_json, const std::string& architecture,
                          std::int32_t padding);

}  // namespace ft
