// GGUF's names and keys for decoders with LLaMA's parts. `architecture`: llama.cpp's name.
#pragma once
#include <array>

#include "models/decoder/config.h"
#include "models/gguf/gguf.h"
#include "models/gguf/gguf_key_reader.h"

namespace ft::decoder {

inline constexpr std::array kGgufModules = {GgufName{"model.embed_tokens", "token_embd"},
                                            GgufName{"model.norm", "output_norm"},
                                            GgufName{"lm_head", "output"}};
inline constexpr std::array kGgufOfLayers = {
    GgufName{"input_layernorm", "attn_norm"},    GgufName{"self_attn.q_proj", "attn_q"},
    GgufName{"self_attn.k_proj", "attn_k"},      GgufName{"self_attn.v_proj", "attn_v"},
    GgufName{"self_attn.o_proj", "attn_output"}, GgufName{"self_attn.q_norm", "attn_q_norm"},
    GgufName{"self_attn.k_norm", "attn_k_norm"}, GgufName{"post_attention_layernorm", "ffn_norm"},
    GgufName{"mlp.gate_proj", "ffn_gate"},       GgufName{"mlp.up_proj", "ffn_up"},
    GgufName{"mlp.down_proj", "ffn_down"}};
inline constexpr std::array kGgufBlocks = {GgufBlocks{"model.layers.", "blk.", kGgufOfLayers}};
inline constexpr GgufNames kGgufNames{kGgufModules, kGgufBlocks};

// Returns the size keys of a decoder with LayerNorm and without grouped queries.
GgufKeys gguf_sizes(const Config&, const std::string& architecture);
// Returns the keys of a decoder with RMSNorm. Throws UserError (input), which names the file, if GGUF cannot
// express a setting. activation: the activation that the architecture has.
GgufKeys gguf_keys(const Config&, const std::string& architecture, const std::string& config_json,
                   Activation activation = Activation::silu);
// Replaces a key's value, or adds the key.
void set_gguf_key(GgufKeys&, const std::string& key, GgufValue);
// Returns the narrowest window that a sequence may exceed, for readers that ignore windows; 0: no layer has
// one.
std::int64_t gguf_ignored_window(const Config&);
// Returns the divisors of the frequencies if they differ from those that readers assume.
std::vector<GgufModel::Factors> gguf_rope_factors(const Rope&);
// Returns the linears whose rows change order, in architectures that rotate neighbouring pairs.
std::vector<GgufModel::Permuted> gguf_permuted(const Config&);

// Makes a decoder's config.json from GGUF's keys; a family adds more keys. parts: the architecture may rotate
// only a part of each head's columns.
Json gguf_config(const GgufKeyReader&, const std::string& model_type, bool parts = false);
// Makes it for heads of other widths than the keys tell. rotated: columns of a head with positions.
Json gguf_config_of_heads(const GgufKeyReader&, const std::string& model_type, std::int64_t head_dim,
                          std::int64_t rotated);
// Adds attention_bias and mlp_bias: true if the file has the bias tensors.
void add_gguf_biases(const GgufKeyReader&, Json& config);

}  // namespace ft::decoder
