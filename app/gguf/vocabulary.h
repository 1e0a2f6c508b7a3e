// A vocabulary read from a tokenizer's files, to be written as GGUF's keys.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "engine/files/json.h"
#include "engine/formats/gguf/gguf.h"

namespace ft {

// Tokens by id, their scores, and their types as SentencePiece numbers them.
struct GgufVocabulary {
  static constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5,
                                kByte = 6;
  static constexpr float kNoScore = -10000;  // score of tokens without one

  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<std::int32_t> types;

  void set(std::size_t id, const std::string& token, std::int32_t type, float score = kNoScore) {
    if (id >= tokens.size()) resize(id + 1);
    tokens[id] = token;
    types[id] = type;
    scores[id] = score;
  }
  // Pads the vocabulary to `size` tokens, and names the unnamed ids as llama.cpp's converters do.
  void fill(std::size_t size) {
    resize(std::max(size, tokens.size()));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i].empty() && types[i] == kUnused) tokens[i] = "[PAD" + std::to_string(i) + "]";
  }

 private:
  void resize(std::size_t size) {
    tokens.resize(size);
    scores.resize(size, kNoScore);
    types.resize(size, kUnused);
  }
};

inline constexpr std::int64_t kLargestTokenizer = std::int64_t{1} << 28;  // bytes of a tokenizer's file
inline constexpr JsonRules kTokenizerRules{.max_bytes = kLargestTokenizer, .unique_keys = false};

// The functions return tokenizer.ggml.model and its keys, padded to vocab_size tokens. They throw UserError
// (input) if GGUF cannot express the tokenizer.
//
// "llama" or "t5": the pieces and scores of a SentencePiece model, BPE or unigram.
GgufKeys gguf_pieces(const std::string& model_file, const Tokenizer&, std::int64_t vocab_size);
// "t5": a unigram model in tokenizer.json.
GgufKeys gguf_unigram(const std::string& tokenizer_json, const Tokenizer&, std::int64_t vocab_size);
// "gpt2": the tokens and merges of a byte-level BPE in tokenizer.json.
GgufKeys gguf_bpe(const std::string& tokenizer_json, std::int64_t vocab_size);

}  // namespace ft
