// Writes a byte-level BPE tokenizer as GGUF's keys.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/gguf/vocabulary.h"
#include "data/tokenizers/gguf_cuts.h"
#include "engine/files/json.h"

namespace ft {
namespace {

bool is_byte_level(const Json& pre_tokenizer) {
  if (!pre_tokenizer.is_object()) return false;
  const Json parts = pre_tokenizer.value("pretokenizers", Json::array());
  return pre_tokenizer.value("type", Json()) == "ByteLevel" ||
         std::any_of(parts.begin(), parts.end(), is_byte_level);
}

std::string cut_name(const Json& pre_tokenizer, const std::string& file) {
  if (const GgufCut* cut = recognize_gguf_cut(pre_tokenizer)) return std::string(cut->names.front());
  throw UserError(
      Exit::input,
      str(printable(file), ": GGUF has no name for its pre_tokenizer; ft knows those of ", gguf_cut_names()));
}

}  // namespace

GgufKeys gguf_bpe(const std::string& file, std::int64_t vocab_size) {
  const Json j = read_json(file, kTokenizerRules), none;
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::input, printable(file) + ": " + what);
  };
  const Json &model = j.contains("model") ? j["model"] : none,
             &pre_tokenizer = j.contains("pre_tokenizer") ? j["pre_tokenizer"] : none;
  if (!model.is_object() || !model.contains("vocab") || !model["vocab"].is_object() ||
      !model.value("merges", Json()).is_array() || !is_byte_level(pre_tokenizer))
    refuse(
        "only byte-level BPE and unigram models, and SentencePiece in tokenizer.model or spiece.model, can "
        "be exported to GGUF");
  const std::string pre = cut_name(pre_tokenizer, file);
  GgufVocabulary v;
  const auto place = [&](const Json& id) {
    if (!id.is_number_unsigned() || id >= vocab_size)
      refuse("token id " + json_excerpt(id) + " is beyond the model's vocab_size");
    return id.get<std::size_t>();
  };
  for (const auto& [token, id] : model["vocab"].items()) v.set(place(id), token, GgufVocabulary::kNormal);
  for (const Json& added : j.value("added_tokens", Json::array()))
    if (added.is_object() && added.contains("id") && added.value("content", Json()).is_string())
      v.set(place(added["id"]), added["content"].get<std::string>(),
            added.value("special", Json()) == true ? GgufVocabulary::kControl : GgufVocabulary::kUserDefined);
  std::vector<std::string> merges;
  for (const Json& merge : model["merges"]) {
    const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    if (!pair && !merge.is_string()) refuse("merges has " + json_excerpt(merge));
    merges.push_back(pair ? merge[0].get<std::string>() + " " + merge[1].get<std::string>()
                          : merge.get<std::string>());
  }
  v.fill(static_cast<std::size_t>(vocab_size));
  return {{"tokenizer.ggml.model", std::string("gpt2")},
          {"tokenizer.ggml.pre", pre},
          {"tokenizer.ggml.tokens", std::move(v.tokens)},
          {"tokenizer.ggml.token_type", std::move(v.types)},
          {"tokenizer.ggml.merges", std::move(merges)}};
}

}  // namespace ft
