#include "app/serve/tool_calls.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "data/files/utf8.h"
#include "engine/files/json.h"

namespace ft {
namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";
constexpr std::string_view kMistral = "[TOOL_CALLS]", kArguments = "[ARGS]";
constexpr std::string_view kPython = "<|python_tag|>";

void skip_space(std::string_view& text) { text = strip_left(text); }

// Removes the JSON object or list at the beginning of the text and returns it; nothing if there is none.
std::optional<Json> take_json(std::string_view& text) {
  skip_space(text);
  if (text.empty() || (text[0] != '{' && text[0] != '[')) return std::nullopt;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
      continue;
    }
    if (c == '"') quoted = true;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) try {
        Json value = parse_json(text.substr(0, i + 1), {"answer"}, {.unique_keys = false});
        text.remove_prefix(i + 1);
        return value;
      } catch (const UserError&) {
        return std::nullopt;
      }
  }
  return std::nullopt;
}

std::optional<ToolCall> call_of(const Json& value) {
  if (!value.is_object()) return std::nullopt;
  if (const auto inner = value.find("function"); inner != value.end() && inner->is_object())
    return call_of(*inner);
  const auto name = value.find("name");
  if (name == value.end() || !name->is_string()) return std::nullopt;
  ToolCall call{name->get<std::string>(), "{}"};
  for (const char* key : {"arguments", "parameters"}) {
    const auto given = value.find(key);
    if (given == value.end() || given->is_null()) continue;
    if (given->is_string())
      call.arguments = given->get<std::string>();  // already JSON text
    else if (given->is_object())
      call.arguments = json_text(*given, -1);
    else
      return std::nullopt;
    return call;
  }
  return call;
}

using Calls = std::vector<ToolCall>;

// Reads consecutive <tool_call> elements; the last may lack its end.
Calls hermes(std::string_view text) {
  Calls calls;
  for (std::size_t at = text.find(kOpen); at != std::string_view::npos; at = text.find(kOpen)) {
    text.remove_prefix(at + kOpen.size());
    const auto value = take_json(text);
    const auto call = value ? call_of(*value) : std::nullopt;
    if (!call) return {};
    calls.push_back(*call);
  }
  return calls;
}

// Reads objects, or lists of objects, separated by the characters of `between`. With `whole` there are no
// calls if the text contains anything else.
Calls objects(std::string_view text, std::string_view between, bool whole) {
  Calls calls;
  for (skip_space(text); !text.empty(); skip_space(text)) {
    const auto value = take_json(text);
    if (!value) return whole ? Calls{} : calls;
    for (const Json& one : value->is_array() ? *value : Json::array({*value})) {
      const auto call = call_of(one);
      if (!call) return {};
      calls.push_back(*call);
    }
    skip_space(text);
    while (!text.empty() && between.find(text[0]) != std::string_view::npos) text.remove_prefix(1);
  }
  return calls;
}

// Reads the list, or the name and its arguments, after each [TOOL_CALLS].
Calls mistral(std::string_view text) {
  Calls calls;
  while (!text.empty()) {
    std::string_view part = text.substr(0, text.find(kMistral));
    text.remove_prefix(std::min(text.size(), part.size() + kMistral.size()));
    part = strip_left(strip_right(part));
    if (part.empty()) continue;
    if (part[0] == '[' || part[0] == '{') {
      const Calls more = objects(part, ",", false);
      if (more.empty()) return {};
      calls.insert(calls.end(), more.begin(), more.end());
      continue;
    }
    const std::string_view name = strip_right(part.substr(0, std::min(part.find('['), part.find('{'))));
    if (const auto at = part.find(kArguments); at != std::string_view::npos)
      part.remove_prefix(at + kArguments.size());
    else
      part.remove_prefix(name.size());
    const auto arguments = take_json(part);
    if (name.empty() || !arguments || !arguments->is_object()) return {};
    calls.push_back({std::string(name), json_text(*arguments, -1)});
  }
  return calls;
}

}  // namespace

CallingAnswer find_calls(const std::string& answer, const std::vector<std::string>& names) {
  const std::string_view all(answer);
  const auto before = [&](std::size_t at) { return std::string(strip_right(strip_left(all.substr(0, at)))); };
  if (const auto at = all.find(kOpen); at != std::string_view::npos)
    return {before(at), hermes(all.substr(at))};
  if (const auto at = all.find(kMistral); at != std::string_view::npos)
    return {before(at), mistral(all.substr(at + kMistral.size()))};
  std::string_view rest = strip_left(all);
  const bool marked = rest.starts_with(kPython);
  if (marked) rest.remove_prefix(kPython.size());
  // Special tokens that end a turn may follow.
  while (rest.ends_with("|>")) {
    const auto begin = rest.rfind("<|");
    if (begin == std::string_view::npos) break;
    rest = strip_right(rest.substr(0, begin));
  }
  Calls calls = objects(rest, ";,", true);
  const auto known = [&](const ToolCall& c) { return std::ranges::find(names, c.name) != names.end(); };
  if (!marked && !std::ranges::all_of(calls, known)) calls.clear();
  return {"", std::move(calls)};
}

std::string CallGate::add(const std::string& piece) {
  text_ += piece;
  const std::string_view begun = strip_left(text_);
  if (begun.empty() || begun[0] == '{' || begun[0] == '[') return "";
  std::size_t safe = text_.size();
  for (const std::string_view mark : {kOpen, kMistral, kPython}) {
    if (const auto at = text_.find(mark); at != std::string::npos) safe = std::min(safe, at);
    for (std::size_t n = std::min(mark.size(), text_.size()); n > 0; --n)
      if (text_.ends_with(mark.substr(0, n))) {
        safe = std::min(safe, text_.size() - n);
        break;
      }
  }
  if (safe <= shown_) return "";
  std::string out = text_.substr(shown_, safe - shown_);
  shown_ = safe;
  return out;
}

std::string CallGate::finish() {
  std::string out = text_.substr(shown_);
  shown_ = text_.size();
  return out;
}

}  // namespace ft
