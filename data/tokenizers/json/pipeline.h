// The parts of a tokenizer, in the order in which a text passes them.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/json/normalizer.h"
#include "data/tokenizers/json/pre_tokenizer.h"
#include "data/tokenizers/json/token_decoder.h"
#include "data/tokenizers/json/token_model.h"
#include "data/tokenizers/tokenizer_settings.h"

namespace ft {

struct Pipeline {
  std::string file;               // for messages
  std::vector<AddedToken> added;  // with ids
  std::vector<std::unique_ptr<Normalizer>> normalizers;
  std::vector<std::unique_ptr<PreTokenizer>> pre_tokenizers;
  std::unique_ptr<TokenModel> model;
  std::vector<std::string> prefix, suffix;  // tokens that the post-processor puts around a text
  std::vector<std::unique_ptr<TokenDecoder>> decoders;
  bool bpe = false;

  // Adds a token as the library does. A token of the vocabulary or the added tokens keeps its id; others get
  // the next one. Flags of a token that was added before are replaced.
  void add(AddedToken token);
  bool has_added(const std::string& content) const { return places.contains(content); }

  std::unordered_map<std::string, std::size_t> places;  // indices into added
  std::int64_t next_id = 0;
};

Pipeline read_tokenizer_json(const std::filesystem::path& file);
// Reads T5's spiece.model: unigram, its table of normalizations, and extra ids after its pieces, the first
// last.
Pipeline read_t5_model(const std::filesystem::path& file, const TokenizerSettings& settings);
Pipeline read_vocab_and_merges(const std::filesystem::path& vocab, const TokenizerSettings& settings);

}  // namespace ft
