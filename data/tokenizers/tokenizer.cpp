#include "data/tokenizers/tokenizer.h"

#include "data/tokenizers/json/json_tokenizer.h"
#include "data/tokenizers/sentencepiece_tokenizer.h"
#include "data/tokenizers/tokenizer_settings.h"
#include "engine/core/error.h"

namespace ft {

Tokenizer::Ids Tokenizer::encode_with_specials(std::string_view text) const {
  Ids ids = prefix();
  const Ids middle = encode(text), end = suffix();
  ids.insert(ids.end(), middle.begin(), middle.end());
  ids.insert(ids.end(), end.begin(), end.end());
  return ids;
}

namespace {

namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> make_sentencepiece(const fs::path& file, const std::vector<AddedToken>& more) {
  const std::string kind = read_tokenizer_settings(file.parent_path()).tokenizer_class;
  const bool t5_file = kind.empty() && file.filename() == "spiece.model";
  if (kind == "T5Tokenizer" || kind == "T5TokenizerFast" || t5_file) return make_t5_tokenizer(file, more);
  if (kind.empty() || kind == "LlamaTokenizer" || kind == "LlamaTokenizerFast")
    return make_llama_tokenizer(file, more);
  throw UserError(Exit::input, str(printable(file.string()), ": its tokenizer is a ", printable(kind),
                                   ", which ft reads only from a tokenizer.json; put that file next to it"));
}

std::unique_ptr<Tokenizer> make_from_file(const fs::path& file, const std::vector<AddedToken>& more) {
  const std::string name = file.filename().string();
  if (name == "vocab.json") return make_vocab_tokenizer(file, more);
  if (file.extension() == ".json") return make_json_tokenizer(file, more);
  if (file.extension() == ".model") return make_sentencepiece(file, more);
  throw UserError(Exit::input, str(printable(file.string()), ": not a tokenizer that ft can read; it reads ",
                                   "tokenizer.json, tokenizer.model, and vocab.json with merges.txt"));
}

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(const fs::path& path, const std::vector<AddedToken>& more) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return make_from_file(path, more);
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model", "vocab.json"})
    if (fs::exists(path / name, error)) return make_from_file(path / name, more);
  throw UserError(Exit::input,
                  str(printable(path.string()),
                      ": no tokenizer: there is neither a tokenizer.json nor a tokenizer.model in "
                      "the model's folder. Text data needs one; data with input_ids does not"));
}

}  // namespace ft
