// TRL's command lines and YAML: the arguments of each trainer besides transformers' TrainingArguments.
#pragma once
#include <span>

#include "app/translate/flag.h"

namespace ft::translate::trl {

std::span<const Flag> common_keys();  // ScriptArguments, ModelConfig and those of the trl command
std::span<const Flag> sft_keys();
std::span<const Flag> dpo_keys();
std::span<const Flag> kto_keys();
std::span<const Flag> reward_keys();
std::span<const Flag> grpo_keys();
std::span<const Flag> rloo_keys();
std::span<const Flag> cpo_keys();     // CPO and ORPO
std::span<const Flag> pair_keys();    // arguments that DPO, KTO, Reward, CPO and ORPO share
std::span<const Flag> online_keys();  // arguments that GRPO and RLOO share

}  // namespace ft::translate::trl
