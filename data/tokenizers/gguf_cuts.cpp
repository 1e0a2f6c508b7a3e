#include "data/tokenizers/gguf_cuts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/tokenizers/json/pre_tokenizer.h"

namespace ft {
namespace {

constexpr std::string_view kDigit = "\\p{N}", kDigits = "\\p{N}+", kThreeDigits = "\\p{N}{1,3}",
                           kLineEnd = "[\\r\\n]",
                           kChineseKorean = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
constexpr std::string_view kLlama3 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                                     R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                                    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen35 =  // marks are parts of words
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kSeedCoder = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1})"
                                        R"(| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kMiniCpm5 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+)"
                                       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// A word ends between a lower-case letter and a capital.
constexpr std::string_view kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kDeepSeekV3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kChineseJapanese = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
constexpr std::string_view kPoro = " ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+";

const std::vector<GgufCut>& cuts() {
  static const std::vector<GgufCut> all{
      {.names = {"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
       .steps = {kLlama3},
       .whole_pieces = true,
       .begins = true},
      {.names = {"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, .steps = {kLlama3}},
      {.names = {"qwen2"}, .steps = {kQwen2}, .composed = true},
      {.names = {"stablelm2", "deepseek-r1-qwen", "hunyuan", "megrez", "solar-open", "grok-2", "kormo",
                 "f2llmv2"},
       .steps = {kQwen2}},
      {.names = {"qwen35"}, .steps = {kQwen35}},
      {.names = {"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4",
                 "gigachat", "mellum", "a.x-4.0"},
       .steps = {kGpt2Pattern}},
      {.names = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
                 "mellum2"},
       .steps = {kDigit, kGpt2Pattern}},
      {.names = {"deepseek-llm"},
       .steps = {kLineEnd, "\\s?[\\p{Lu}\\p{Ll}\\p{Lt}]+",
                 "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+", "\\s+$", kChineseKorean,
                 kDigit}},
      {.names = {"deepseek-coder"},
       .steps = {kLineEnd, "\\s?\\p{L}+", "\\s?\\p{P}+", kChineseKorean, kDigit}},
      {.names = {"deepseek-v3", "hunyuan-dense", "joyai-llm"},
       .steps = {kThreeDigits, kChineseJapanese, kDeepSeekV3}},
      {.names = {"tekken"}, .steps = {kTekken}, .whole_pieces = true, .begins = true},
      {.names = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, .steps = {kGpt4o}},
      {.names = {"seed-coder"}, .steps = {kSeedCoder}},
      {.names = {"minicpm5"}, .steps = {kThreeDigits, kMiniCpm5}, .whole_pieces = true},
      {.names = {"poro-chat", "bloom", "gpt3-finnish"}, .steps = {kPoro}},
      {.names = {"viking"}, .steps = {kPoro, kDigit}},
      // llama.cpp's fallback, used by no model
      {.names = {"default"}, .steps = {"[\\p{P}$+<=>^~|]+", kGpt2Pattern, kDigits, "[0-9][0-9][0-9]"}}};
  return all;
}

Json byte_level(bool own_pattern) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", own_pattern},
          {"use_regex", own_pattern}};
}

// Escapes line ends, because some files contain them unescaped in their patterns.
std::string with_escapes(const std::string& pattern) {
  std::string out;
  for (const char c : pattern) out += c == '\r' ? "\\r" : c == '\n' ? "\\n" : std::string(1, c);
  return out;
}

// Returns the patterns of a pre-tokenizer; nullopt if it does something else.
std::optional<std::vector<std::string>> steps_of(const Json& j) {
  if (!j.is_object()) return std::nullopt;
  const Json type = j.value("type", Json());
  const auto flag = [&](const char* key, bool otherwise) { return j.value(key, Json(otherwise)) == true; };
  if (type == "ByteLevel")
    return flag("use_regex", true) ? std::vector{std::string(kGpt2Pattern)} : std::vector<std::string>{};
  if (type == "Digits") return std::vector{std::string(flag("individual_digits", false) ? kDigit : kDigits)};
  if (type == "Split") {
    const Json pattern = j.value("pattern", Json::object()).value("Regex", Json());
    // A pattern that covers the text gives equal pieces with both behaviors.
    const bool isolated = j.value("behavior", Json()) == "Isolated" && !flag("invert", false),
               covered = j.value("behavior", Json()) == "Removed" && flag("invert", false);
    if (!pattern.is_string() || !(isolated || covered)) return std::nullopt;
    return std::vector{with_escapes(pattern.get<std::string>())};
  }
  if (type != "Sequence") return std::nullopt;
  std::vector<std::string> all;
  for (const Json& part : j.value("pretokenizers", Json::array())) {
    const auto steps = steps_of(part);
    if (!steps) return std::nullopt;
    all.insert(all.end(), steps->begin(), steps->end());
  }
  return all;
}

}  // namespace

const GgufCut* find_gguf_cut(std::string_view name) {
  const auto at = std::ranges::find_if(
      cuts(), [&](const GgufCut& c) { return std::ranges::find(c.names, name) != c.names.end(); });
  return at == cuts().end() ? nullptr : &*at;
}

std::string gguf_cut_names() {
  std::string all;
  for (const GgufCut& c : cuts()) all += (all.empty() ? "" : ", ") + std::string(c.names.front());
  return all;
}

Json pre_tokenizer_of(const GgufCut& cut) {
  if (cut.steps.size() == 1 && cut.steps[0] == kGpt2Pattern) return byte_level(true);
  Json parts = Json::array();
  const bool own = cut.steps.back() == kGpt2Pattern;
  for (const std::string_view step : cut.steps) {
    if (step == kDigit || step == kDigits)
      parts.push_back({{"type", "Digits"}, {"individual_digits", step == kDigit}});
    else if (!own || step != kGpt2Pattern)
      parts.push_back(
          {{"type", "Split"}, {"pattern", {{"Regex", step}}}, {"behavior", "Isolated"}, {"invert", false}});
  }
  parts.push_back(byte_level(own));
  return {{"type", "Sequence"}, {"pretokenizers", parts}};
}

const GgufCut* recognize_gguf_cut(const Json& pre_tokenizer) {
  const auto steps = steps_of(pre_tokenizer);
  if (!steps) return nullptr;
  const auto at =
      std::ranges::find_if(cuts(), [&](const GgufCut& c) { return std::ranges::equal(c.steps, *steps); });
  return at == cuts().end() ? nullptr : &*at;
}

}  // namespace ft
