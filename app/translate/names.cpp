#include "app/translate/names.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ft::translate {
namespace {

// A slice of a split: [first:last], in rows or in percent.
struct Slice {
  bool percent = false;
  double first = 0, last = -1;  // last -1: to the end
};

// Returns the number before an optional %, or -1.
double bound(std::string text, bool& percent) {
  if (text.ends_with('%')) {
    percent = true;
    text.pop_back();
  }
  const std::optional<Json> value = value_of(ValueKind::whole, text);
  return value && *value >= 0 ? value->get<double>() : -1;
}

std::optional<Slice> slice_of(const std::string& inside) {
  const std::size_t colon = inside.find(':');
  if (colon == inside.npos) return std::nullopt;
  Slice slice;
  const std::string first = inside.substr(0, colon), last = inside.substr(colon + 1);
  if (!first.empty() && (slice.first = bound(first, slice.percent)) < 0) return std::nullopt;
  if (!last.empty() && (slice.last = bound(last, slice.percent)) < 0) return std::nullopt;
  return slice;
}

}  // namespace

std::string optimizer_name(const std::string& name, const std::string& key, Draft& draft) {
  for (const char* adamw :
       {"adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused", "adamw_torch_xla"})
    if (name == adamw) return "adamw";
  if (name == "adamw_torch_8bit") {
    draft.map(key, "training.optim", "states in 8 bits as bitsandbytes has them, not torchao");
    return "adamw_8bit";
  }
  return name;
}

std::string optimizer_arguments(const Json& given) {
  if (given.is_string()) return given.get<std::string>();
  std::string all;
  if (given.is_object())
    for (const auto& [name, value] : given.items())
      all += (all.empty() ? "" : ",") + name + "=" +
             (value.is_string() ? value.get<std::string>() : value.dump());
  return all;
}

void choose_fp8(const Given& given, Draft& draft) {
  if (!given.has("fp8")) return;
  if (!given.on("fp8")) return draft.ignore("fp8", "it is off");
  if (const Json* four = draft.find("quantization.load_in_4bit"); four && *four == true)
    return draft.reject("fp8", "there are no products in FP8 of weights in 4 bits");
  if (given.on("fp16")) return draft.reject("fp8", "everything else is then in bfloat16, not in float16");
  draft.set("training.fp8", true);
  draft.set("training.bf16", true);
  if (*draft.find("finetuning_type") == "lora") draft.set("model.frozen_dtype", "fp8");
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += (std::string("\\^$.|?*+()[]{}").find(c) != std::string::npos ? "\\" : "") + std::string(1, c);
  return out;
}

std::vector<std::string> comma_separated(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string word = text.substr(begin, comma - begin);
    const std::size_t first = word.find_first_not_of(" \t\n"), last = word.find_last_not_of(" \t\n");
    if (first != word.npos) words.push_back(word.substr(first, last - first + 1));
    begin = comma + 1;
  }
  return words;
}

void set_split(Json& source, const std::string& split, const std::string& key, Draft& draft) {
  const std::size_t bracket = split.find('[');
  const std::string name = split.substr(0, bracket);
  if (!name.empty() && name != "train") source["split"] = name;
  if (bracket == split.npos) return;
  const std::optional<Slice> slice =
      split.ends_with(']') ? slice_of(split.substr(bracket + 1, split.size() - bracket - 2)) : std::nullopt;
  const bool from_start = slice && slice->first == 0 && slice->last > 0;
  if (from_start && !slice->percent) {
    source["max_samples"] = std::int64_t(slice->last);
    draft.map(key, "data.datasets[].max_samples", "");
  } else if (from_start && slice->last <= 100) {
    if (slice->last < 100) source["weight"] = slice->last / 100;
    draft.map(key, "data.datasets[].weight", "as many rows, chosen at random instead of the first");
  } else {
    draft.reject(key, str("ft takes the first rows of a split; write those of ", printable(split),
                          " into a file of their own"));
  }
}

void choose_reward_program(const std::string& key, bool has_model, Draft& draft) {
  if (!key.empty())
    draft.reject(key,
                 "functions in Python: write a program that reads and writes JSON lines, and name it in "
                 "objective.reward_command (docs/preferences.md)");
  if (key.empty() && has_model) return;
  draft.set("objective.reward_command", "./reward");
  draft.warnings.emplace_back("run.json names ./reward, a program that you write: it rewards the answers");
}

}  // namespace ft::translate
