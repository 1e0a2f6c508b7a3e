// Single rows of the embedding and of the head that are trained (PEFT's trainable_token_indices).
#pragma once
#include <vector>

#include "lora/attach.h"

namespace ft::lora {

// The tables and rows that the configuration names. A head that shares the embedding's table gets one of its
// own where the rows are to differ.
std::vector<TrainedTokens> tokens_to_train(Model&, const LoraConfig&, const Origin&);

// Makes the rows parameters of their own, when all else that is trained has been decided.
void train_tokens(Model&, const std::vector<TrainedTokens>&, const LoraConfig&, DType, const Origin&,
                  Attached&);

}  // namespace ft::lora
