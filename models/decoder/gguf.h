// What GGUF calls the parts of a decoder with LLaMA's names, and its keys. `architecture`: llama.cpp's name.
#pragma once
#include <array>

#include "models/decoder/config.h"
#include "models/gguf.h"
#include "models/gguf_key_reader.h"

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

// Keys of a decoder with LayerNorm and without grouped queries.
GgufKeys gguf_sizes(const Config&, const std::string& architecture);
// UserError(Exit::input) for what GGUF cannot say; the file is named in it. activation: the architecture's.
GgufKeys gguf_keys(const Config&, const std::string& architecture, const std::string& config_json,
                   Activation activation = Activation::silu);
// The narrowest window that a sequence may be longer than, for readers that know none; 0: no layer has one.
std::int64_t gguf_ignored_window(const Config&);
// Divisors of the frequencies, where they differ from what readers assume.
std::vector<GgufModel::Factors> gguf_rope_factors(const Rope&);
// The linears of architectures that rotate neighbouring pairs.
std::vector<GgufModel::Permuted> gguf_permuted(const Config&);

// config.json of such a decoder as GGUF describes it; a family adds its own keys. parts: the architecture's
// heads may rotate a part of their columns.
Json gguf_config(const GgufKeyReader&, const std::string& model_type, bool parts = false);
// attention_bias and mlp_bias, which the tensors tell.
void add_gguf_biases(const GgufKeyReader&, Json& config);

}  // namespace ft::decoder
