// Converts adapters that took part of the base's weights (PiSSA, OLoRA) to plain LoRA for the original base,
// as PEFT's save_pretrained(path_initial_model_for_weight_conversion) does. A0 and B0 are the initial A and
// B: s B A - s B0 A0 = s [B, -B0] [A; A0], of twice the rank.
#pragma once
#include <functional>
#include <string>

#include "lora/starts/starts.h"

namespace ft::lora {

// Returns the configuration of the plain adapter.
LoraConfig plain_config(LoraConfig);

// Replaces an adapter's two files, which hold the factors as trained. Tensors that are not factors stay.
using FirstFactors = std::function<const Factors&(std::size_t adapter)>;
void make_plain(const std::string& folder, const LoraConfig&, const Attached&, const FirstFactors&,
                const std::string& base_model);

// The file beside a checkpoint's adapter that holds the first A and B of LoRA-GA, under the names of A and B
// in the adapter's file after "first.". Nothing else has them, and the base lacks their product.
inline constexpr const char* kFirstFactors = "first_factors.safetensors";
void write_first_factors(const std::string& folder, const Attached&, const FirstFactors&);
// Throws UserError (`exit`) unless the folder has the file, and it has all of them in the model's shapes.
std::vector<Factors> read_first_factors(const std::string& folder, const Attached&, Exit exit);

// Adds to the folder's file second copies of the tensors that a head shares with the embedding
// (ensure_weight_tying), as PEFT stores and requires them: the adapter, transposed, and the table, if it was
// trained completely. `table`: the table's name in the file; empty: it was not trained.
void repeat_for_head(const std::string& folder, const Attached&, const std::string& table);

}  // namespace ft::lora
