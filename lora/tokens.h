// Single trained rows of the embedding and of the head (PEFT's trainable_token_indices).
#pragma once
#include <vector>

#include "lora/attach.h"

namespace ft::lora {

// Returns the tables and rows that the configuration names. A head that shares the embedding's table gets a
// separate table if the rows may differ.
std::vector<TrainedTokens> tokens_to_train(Model&, const LoraConfig&, const Origin&);

// Makes the rows parameters. Call it when all other trained parameters are known.
void train_tokens(Model&, const std::vector<TrainedTokens>&, const LoraConfig&, DType, const Origin&,
                  Attached&);

}  // namespace ft::lora
