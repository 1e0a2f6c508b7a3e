#include "data/chat/chat_markers.h"

#include <algorithm>
#include <array>
#include <vector>

#include "data/chat/chat_format.h"
#include "data/chat/chat_template.h"
#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

// Returns text that contains the markers of data.chat_template: a format's rendering, or the template's text.
std::string text_of(const std::string& setting, const fs::path& folder, const Tokenizer& tokenizer) {
  if (const auto format = chat_format_by_name(setting)) {
    // Zephyr's tokenizers split its markers too.
    if (format->style == ChatStyle::zephyr) return "";
    const std::array<ChatMessage, 2> messages{ChatMessage{"user", "a"}, ChatMessage{"assistant", "b"}};
    std::string text;
    for (const ChatPart& part : render_chat(*format, messages, tokenizer)) text += part.text;
    return text;
  }
  if (is_template_file(setting)) {  // ChatTemplate refuses a missing file
    const std::string file = (folder / setting).string();
    return path_exists(file) ? read_file(file, 1 << 20) : "";
  }
  return setting.find('{') == setting.npos ? "" : setting;
}

bool is_name(std::string_view text) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; };
  return !text.empty() && std::all_of(text.begin(), text.end(), allowed);
}

// Returns the markers <|name|> and <name_of_turn> in the text, each once.
std::vector<std::string> markers_in(const std::string& text) {
  std::vector<std::string> all;
  for (std::size_t open = text.find('<'); open != text.npos; open = text.find('<', open + 1)) {
    const std::size_t close = text.find('>', open);
    if (close == text.npos) break;
    const std::string marker = text.substr(open, close + 1 - open);
    const bool piped = marker.size() > 4 && marker.starts_with("<|") && marker.ends_with("|>") &&
                       is_name(std::string_view(marker).substr(2, marker.size() - 4));
    const bool turn =
        marker.ends_with("_of_turn>") && is_name(std::string_view(marker).substr(1, close - open - 1));
    if ((piped || turn) && std::find(all.begin(), all.end(), marker) == all.end()) all.push_back(marker);
  }
  return all;
}

bool is_token(const std::string& marker, const Tokenizer& tokenizer) {
  const Tokenizer::Ids ids = tokenizer.encode(marker);
  return std::any_of(ids.begin(), ids.end(), [&](std::int32_t id) { return tokenizer.token(id) == marker; });
}

}  // namespace

std::string note_about_markers(const std::string& setting, const fs::path& tokenizer_path,
                               const Tokenizer& tokenizer) {
  std::error_code none;
  const fs::path folder =
      fs::is_directory(tokenizer_path, none) ? tokenizer_path : tokenizer_path.parent_path();
  std::string split;
  for (const std::string& marker : markers_in(text_of(setting, folder, tokenizer)))
    if (!is_token(marker, tokenizer))
      split += str(split.empty() ? "" : ", ", marker, " (", tokenizer.encode(marker).size(), " tokens)");
  if (split.empty()) return "";
  return str("data.chat_template: the tokenizer splits ", split,
             ", which the model has not seen as markers; leave data.chat_template out for the model's own "
             "template, or add them with data.new_special_tokens");
}

}  // namespace ft
