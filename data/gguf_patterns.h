// How texts are cut before byte-level BPE: GGUF's readers know patterns by the names of the models that
// brought them. GPT-2's, "gpt-2", is the ByteLevel pre-tokenizer's own.
#pragma once
#include <array>

namespace ft {

struct GgufPattern {
  const char *name, *regex;
};
inline constexpr std::array kGgufPatterns = {
    GgufPattern{"llama-bpe", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                             R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    GgufPattern{"qwen2", R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                         R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}};

}  // namespace ft
