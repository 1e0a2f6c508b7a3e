// A byte-level BPE as GGUF's keys.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/gguf/vocabulary.h"
#include "data/gguf_patterns.h"
#include "engine/io/json.h"

namespace ft {
namespace {

void find_patterns(const Json& j, std::vector<std::string>& regexes, bool& gpt2) {
  if (j.is_object()) {
    if (j.contains("Regex") && j["Regex"].is_string()) regexes.push_back(j["Regex"].get<std::string>());
    if (j.value("type", Json()) == "ByteLevel" && j.value("use_regex", Json(true)) == true) gpt2 = true;
  }
  if (j.is_structured())
    for (const Json& inner : j) find_patterns(inner, regexes, gpt2);
}

std::string pattern_name(const Json& tokenizer, const std::string& file) {
  std::vector<std::string> regexes;
  bool gpt2 = false;
  find_patterns(tokenizer.value("pre_tokenizer", Json()), regexes, gpt2);
  if (regexes.empty() && gpt2) return "gpt-2";
  if (regexes.size() == 1)
    for (const GgufPattern& p : kGgufPatterns)
      if (regexes[0] == p.regex) return p.name;
  throw UserError(Exit::input, printable(file) +
                                   ": GGUF has no name for its pre_tokenizer; ft knows those of "
                                   "GPT-2, LLaMA 3 and Qwen 2");
}

}  // namespace

GgufKeys gguf_bpe(const std::string& file, std::int64_t vocab_size) {
  const Json j = read_json(file, {.max_bytes = kLargestTokenizer});
  const auto refuse = [&](const std::string& what) {
    throw UserError(Exit::input, printable(file) + ": " + what);
  };
  const Json& model = j.contains("model") ? j["model"] : Json();
  if (!model.is_object() || !model.contains("vocab") || !model["vocab"].is_object() ||
      !model.value("merges", Json()).is_array() || model.value("byte_fallback", Json()) == true)
    refuse(
        "only byte-level BPE and unigram models, and SentencePiece in tokenizer.model or spiece.model, can "
        "be exported to GGUF");
  const std::string pre = pattern_name(j, file);
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
