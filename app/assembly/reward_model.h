// A model whose head gives a score: what transformers calls *ForSequenceClassification with one label.
#pragma once
#include <cstdint>
#include <string>

#include "app/config/config.h"
#include "lora/config.h"
#include "models/registry.h"

namespace ft {

inline constexpr const char* kScore = "score.weight";

// Gives the model a score in place of the vocabulary. UserError (exit 2) for an encoder-decoder.
void make_reward_model(MadeModel&);
// An adapter trains the score whole, as PEFT's task type SEQ_CLS does; names that no model here has go.
void train_score(lora::LoraConfig&);

// The token behind which nothing is scored: the tokenizer's padding, else config.json's, else the end token.
// UserError where there is none.
std::int32_t padding_token(const BaseModelConfig&);

// config.json's text as that of a reward model.
std::string reward_config(const std::string& config_json, const std::string& architecture,
                          std::int32_t padding);

}  // namespace ft
