#include "data/tokenizer.h"

#include "data/sentencepiece_tokenizer.h"
#include "data/tokenizer_settings.h"
#include "engine/core/error.h"

namespace ft {

Tokenizer::Ids Tokenizer::encode_with_specials(std::string_view text) const {
  Ids ids = prefix();
  const Ids middle = encode(text), end = suffix();
  ids.insert(ids.end(), middle.begin(), middle.end());
  ids.insert(ids.end(), end.begin(), end.end());
  return ids;
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::filesystem::path& folder) {
  const auto there = [&](const char* name) {
    std::error_code error;
    return std::filesystem::exists(folder / name, error);
  };
  const std::string name = printable(folder.string());
  if (there("tokenizer.model")) {
    const std::string kind = read_tokenizer_settings(folder).tokenizer_class;
    if (kind.empty() || kind == "LlamaTokenizer" || kind == "LlamaTokenizerFast")
      return make_llama_tokenizer(folder);
    throw UserError(Exit::input,
                    str(name, ": its tokenizer is a ", printable(kind),
                        ", which ft cannot read yet; it reads LlamaTokenizer (tokenizer.model)"));
  }
  for (const char* other : {"tokenizer.json", "spiece.model", "vocab.json"})
    if (there(other))
      throw UserError(Exit::input,
                      str(name, ": a tokenizer in ", other,
                          " cannot be read yet; ft reads tokenizer.model. "
                          "Put the model's tokenizer.model beside it, or give data that is tokenized "
                          "(input_ids)"));
  throw UserError(Exit::input,
                  str(name,
                      ": no tokenizer: there is no tokenizer.model in the model's folder. Text data "
                      "need one; data with input_ids do not"));
}

}  // namespace ft
