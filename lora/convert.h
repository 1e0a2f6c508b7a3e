// Adapters that took part of the base's weights (PiSSA, OLoRA) as plain LoRA for the whole base, as PEFT's
// save_pretrained(path_initial_model_for_weight_conversion) writes them: with what A and B began as, s B A -
// s B0 A0 = s [B, -B0] [A; A0], of twice the rank.
#pragma once
#include <functional>
#include <string>

#include "lora/starts.h"

namespace ft::lora {

// The configuration of the plain adapter.
LoraConfig plain_config(LoraConfig);

// Replaces an adapter's two files, which hold the factors as they are trained. What is no factor stays.
using FirstFactors = std::function<const Factors&(std::size_t adapter)>;
void make_plain(const std::string& folder, const LoraConfig&, const Attached&, const FirstFactors&,
                const std::string& base_model);

// Repeats in the folder's file what a head shares with the embedding (ensure_weight_tying), as PEFT stores it
// and asks for it: an adapter, turned, and the table that was trained whole, named `table` there
// (empty: none was).
void repeat_for_head(const std::string& folder, const Attached&, const std::string& table);

}  // namespace ft::lora
