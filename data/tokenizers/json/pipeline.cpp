#include "data/tokenizers/json/pipeline.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "data/files/utf8.h"
#include "data/tokenizers/json/bpe.h"
#include "data/tokenizers/json/unigram.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "engine/files/file.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

// A token may appear twice, as in files made from Gemma's GGUF: the library takes the last.
constexpr JsonRules kRules{.max_bytes = std::size_t{256} << 20, .unique_keys = false};

using Entries = std::vector<std::pair<std::string, std::int64_t>>;
using Merges = std::vector<std::pair<std::string, std::string>>;

// Reads {"a": 0, "b": 1, ...}.
Entries read_entries(const JsonObject& vocabulary) {
  Entries entries;
  for (const auto& [text, id] : *vocabulary.json().get_ptr<const Json::object_t*>()) {
    if (!id.is_number_integer()) vocabulary.refuse(text, "an id");
    entries.emplace_back(text, id.get<std::int64_t>());
  }
  return entries;
}

// Reads "a b".
std::pair<std::string, std::string> read_merge(const std::string& line, const std::string& where) {
  const std::size_t space = line.find(' ');
  if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
    throw UserError(Exit::input,
                    str(where, ": ", printable(line, 40), " is not two tokens separated by a space"));
  return {line.substr(0, space), line.substr(space + 1)};
}

// Reads ["a b", ...] or [["a", "b"], ...].
Merges read_merges(const JsonObject& model) {
  Merges merges;
  if (!model.is_array("merges")) model.refuse("merges", "a list");
  const auto is_text = [](const Json& j) { return j.is_string(); };
  for (const Json& item : model.json().at("merges")) {
    if (item.is_string()) {
      const auto& line = item.get_ref<const std::string&>();
      if (!line.starts_with("#version")) merges.push_back(read_merge(line, model.file() + ": model.merges"));
    } else if (item.is_array() && item.size() == 2 && std::all_of(item.begin(), item.end(), is_text)) {
      merges.emplace_back(item[0].get<std::string>(), item[1].get<std::string>());
    } else {
      model.refuse("merges", "a list of pairs of tokens");
    }
  }
  return merges;
}

std::unique_ptr<TokenModel> read_bpe(const JsonObject& model) {
  if (model.has("dropout") && model.number("dropout") != 0)
    model.refuse("dropout", "null: ft does not support BPE dropout");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!model.text_or(key, "").empty()) model.refuse(key, "empty: ft does not support affixes of subwords");
  BpeOptions options;
  if (model.has("unk_token")) options.unk_token = model.text("unk_token");
  options.fuse_unk = model.boolean_or("fuse_unk", false);
  options.byte_fallback = model.boolean_or("byte_fallback", false);
  options.ignore_merges = model.boolean_or("ignore_merges", false);
  const std::string where = printable(model.file()) + ": model";
  return make_bpe(Vocabulary(read_entries(model.object("vocab")), where), read_merges(model), options, where);
}

// Returns a number as Hugging Face's library reads it (serde_json): its digits as a double, divided or
// multiplied by a power of ten. One of twelve numbers then is not the nearest double. This decides between
// cuts of equal cost, such as # ### and
double as_serde_reads(double exact) {
  std::array<char, 32> room{};  // the shortest text that reads back the same: 1.2345e-05
  char* const end =
      std::to_chars(room.data(), room.data() + room.size(), std::abs(exact), std::chars_format::scientific)
          .ptr;
  const std::string_view text(room.data(), static_cast<std::size_t>(end - room.data()));
  const std::size_t letter = text.find('e');
  int exponent = 0;
  std::from_chars(room.data() + letter + (text[letter + 1] == '+' ? 2 : 1), end, exponent);
  std::uint64_t digits = 0;
  for (const char c : text.substr(0, letter))
    if (c != '.') digits = digits * 10 + static_cast<std::uint64_t>(c - '0');
  exponent -= letter > 1 ? static_cast<int>(letter) - 2 : 0;  // digits after the point
  const double power = std::pow(10.0, std::abs(exponent)), whole = static_cast<double>(digits);
  if (!std::isfinite(power)) return exact;
  return std::copysign(exponent < 0 ? whole / power : whole * power, exact);
}

// Reads [["a", -1.5], ...].
std::unique_ptr<TokenModel> read_unigram(const JsonObject& model) {
  std::vector<std::pair<std::string, double>> pieces;
  if (!model.is_array("vocab")) model.refuse("vocab", "a list of pieces with scores");
  for (const Json& item : model.json().at("vocab")) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number())
      model.refuse("vocab", "a list of pieces with scores");
    pieces.emplace_back(item[0].get<std::string>(), as_serde_reads(item[1].get<double>()));
  }
  std::optional<std::int64_t> unk_id;
  if (model.has("unk_id")) unk_id = model.integer("unk_id", 0);
  return make_unigram(pieces, unk_id, model.boolean_or("byte_fallback", false),
                      printable(model.file()) + ": model");
}

// Reads the tokens around $A: [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}].
void read_template(const JsonObject& object, Pipeline& out) {
  bool after = false;
  for (const JsonObject& item : object.objects("single")) {
    if (item.has("Sequence")) {
      if (after) object.refuse("single", "a template that contains the text once");
      after = true;
      continue;
    }
    const std::string name = item.object("SpecialToken").text("id");
    // Tokens that the name stands for.
    for (const std::string& token : object.object("special_tokens").object(name).texts("tokens"))
      (after ? out.suffix : out.prefix).push_back(token);
  }
  if (!after) object.refuse("single", "a template that contains the text once");
}

void read_post_processor(const JsonObject& object, Pipeline& out) {
  const std::string type = object.text("type");
  if (type == "Sequence") {
    for (const JsonObject& part : object.objects("processors")) read_post_processor(part, out);
  } else if (type == "TemplateProcessing") {
    Pipeline inner;
    read_template(object, inner);
    out.prefix.insert(out.prefix.begin(), inner.prefix.begin(), inner.prefix.end());
    out.suffix.insert(out.suffix.end(), inner.suffix.begin(), inner.suffix.end());
  } else if (type != "ByteLevel") {  // which only changes the tokens' positions
    object.refuse("type", "one of TemplateProcessing, ByteLevel, Sequence: ft knows these post-processors");
  }
}

Pipeline read_parts(const JsonObject& tokenizer) {
  Pipeline out;
  out.file = tokenizer.file();
  out.normalizers = read_normalizers(tokenizer);
  out.pre_tokenizers = read_pre_tokenizers(tokenizer);
  out.decoders = read_token_decoders(tokenizer);
  if (tokenizer.has("post_processor")) read_post_processor(tokenizer.object("post_processor"), out);
  return out;
}

AddedToken read_added(const JsonObject& object) {
  return {.content = object.text("content"),
          .id = {},
          .special = object.boolean_or("special", false),
          .lstrip = object.boolean_or("lstrip", false),
          .rstrip = object.boolean_or("rstrip", false),
          .single_word = object.boolean_or("single_word", false),
          .normalized = object.boolean_or("normalized", !object.boolean_or("special", false))};
}

}  // namespace

void Pipeline::add(AddedToken token) {
  if (token.content.empty()) return;
  const auto [place, fresh] = places.try_emplace(token.content, added.size());
  if (!fresh) {
    AddedToken& same = added[place->second];
    token.id = same.id;
    same = std::move(token);
    return;
  }
  token.id = model->vocabulary().id(token.content);
  if (!token.id) token.id = static_cast<std::int32_t>(std::max(next_id, model->vocabulary().count()));
  next_id = std::max<std::int64_t>(next_id, *token.id + 1);
  added.push_back(std::move(token));
}

Pipeline read_tokenizer_json(const fs::path& file) {
  const JsonObject tokenizer = JsonObject::read(file.string(), kRules);
  Pipeline out = read_parts(tokenizer);
  const JsonObject model = tokenizer.object("model");
  // Old files have no type.
  const std::string type = model.text_or("type", model.has("merges") ? "BPE" : "");
  if (type == "BPE")
    out.model = read_bpe(model);
  else if (type == "Unigram")
    out.model = read_unigram(model);
  else
    model.refuse("type", "BPE or Unigram: ft knows these models");
  out.bpe = type == "BPE";
  if (tokenizer.has("added_tokens"))
    for (const JsonObject& token : tokenizer.objects("added_tokens")) out.add(read_added(token));
  return out;
}

Pipeline read_vocab_and_merges(const fs::path& vocab, const TokenizerSettings& settings) {
  static constexpr std::string_view kGpt2 = R"({
      "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": PREFIX},
      "decoder": {"type": "ByteLevel"}})";
  static constexpr std::string_view kQwen2 = R"({
      "normalizer": {"type": "NFC"},
      "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "PATTERN"}},
        {"type": "ByteLevel", "add_prefix_space": PREFIX, "use_regex": false}]},
      "decoder": {"type": "ByteLevel"}})";
  static constexpr std::string_view kQwen2Pattern =
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N})"
      R"(| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
  const bool qwen2 = settings.tokenizer_class.starts_with("Qwen2");
  std::string parts(qwen2 ? kQwen2 : kGpt2);
  const bool prefix = settings.says_prefix_space && settings.add_prefix_space;
  parts = replaced(replaced(parts, "PREFIX", prefix ? "true" : "false"), "PATTERN", kQwen2Pattern);
  Pipeline out = read_parts(JsonObject::parse(parts, {vocab.string()}));
  const JsonObject entries = JsonObject::read(vocab.string(), kRules);
  const std::string file = (vocab.parent_path() / "merges.txt").string();
  std::istringstream lines(read_file(file, static_cast<std::int64_t>(kRules.max_bytes)));
  Merges merges;
  std::int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with("#version"))
      merges.push_back(read_merge(line, str(printable(file), ":", number)));
  }
  out.model =
      make_bpe(Vocabulary(read_entries(entries), printable(vocab.string())), merges, {}, printable(file));
  out.bpe = true;
  return out;
}

Pipeline read_t5_model(const fs::path& file, const TokenizerSettings& settings) {
  static constexpr std::string_view kParts = R"({
      "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}]},
      "decoder": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always"}})";
  const std::string name = file.string();
  const std::string bytes = read_file(name, static_cast<std::int64_t>(kRules.max_bytes));
  const SentencePieceModel model = check_sentencepiece_model(bytes, name);
  if (!model.unigram)
    throw UserError(
        Exit::input,
        str(printable(name),
            ": not a unigram model, as T5's are; ft reads this tokenizer only from a tokenizer.json"));
  Pipeline out = read_parts(JsonObject::parse(kParts, {name}));
  if (!model.charsmap.empty()) out.normalizers.push_back(make_precompiled(model.charsmap));
  std::vector<std::pair<std::string, double>> pieces;
  std::vector<AddedToken> special;
  std::int64_t unk_id = 0;
  for (const auto& piece : model.pieces) {
    using Kind = SentencePieceModel::Kind;
    if (piece.kind == Kind::unknown) unk_id = static_cast<std::int64_t>(pieces.size());
    if (piece.kind == Kind::unknown || piece.kind == Kind::control)
      special.push_back({.content = piece.text, .id = {}, .special = true});
    pieces.emplace_back(piece.text, piece.score);
  }
  for (std::int64_t k = settings.extra_ids - 1; k >= 0; --k) {
    pieces.emplace_back(str("<extra_id_", k, ">"), 0.0);
    special.push_back({.content = pieces.back().first, .id = {}, .special = true});
  }
  out.model = make_unigram(pieces, unk_id, false, printable(name));
  for (AddedToken& token : special) out.add(std::move(token));
  out.suffix = {"</s>"};
  return out;
}

}  // namespace ft
