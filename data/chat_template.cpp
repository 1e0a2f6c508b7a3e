#include "data/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "engine/core/error.h"
#include "engine/io/file.h"
#include "engine/io/json.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongest = std::int64_t{1} << 20;  // bytes of a template
constexpr const char* kDefault = "default";

struct Signs {
  ChatStyle style;
  std::vector<std::string_view> all;   // each is in it
  std::vector<std::string_view> none;  // none is in it
};

// Words with which templates do more than set messages between signs.
constexpr std::string_view kMore[] = {"tool",      "date",      "strftime", "You are",   "<think", "thinking",
                                      "documents", "reasoning", "image",    "Knowledge", "macro"};

std::optional<std::string> read_if_there(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  return read_file(file.string(), kLongest);
}

// chat_template.jinja, else chat_template of tokenizer_config.json: a text, or a list of named texts.
std::optional<std::string> own_template(const fs::path& folder) {
  if (auto text = read_if_there(folder / "chat_template.jinja")) return text;
  const fs::path file = folder / "tokenizer_config.json";
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  const JsonObject config = JsonObject::read(file.string(), {.max_bytes = std::size_t{64} << 20});
  if (!config.has("chat_template")) return std::nullopt;
  if (!config.is_array("chat_template")) return config.text("chat_template");
  for (const JsonObject& entry : config.objects("chat_template"))
    if (entry.text("name") == kDefault) return entry.text("template");
  return std::nullopt;
}

constexpr std::string_view kChoose = "set data.chat_template to the one that the model was trained with: ";

}  // namespace

std::optional<ChatFormat> recognised_chat_format(std::string_view jinja) {
  static const std::vector<Signs> kSigns{
      {ChatStyle::llama3, {"<|start_header_id|>", "<|end_header_id|>\\n\\n", "<|eot_id|>"}, {}},
      {ChatStyle::chatml, {"<|im_start|>", "<|im_end|>"}, {"bos_token"}},
      {ChatStyle::zephyr, {"<|system|>", "<|user|>", "<|assistant|>", "eos_token"}, {"<|end|>", "bos_token"}},
      {ChatStyle::gemma, {"<start_of_turn>", "<end_of_turn>", "bos_token"}, {}},
      {ChatStyle::llama2, {"[INST] ", " [/INST]", "<<SYS>>", "bos_token", "eos_token"}, {}},
      {ChatStyle::mistral, {"'[INST] '", "' [/INST]'", "bos_token", "eos_token"}, {"<<SYS>>", "system"}},
  };
  const auto has = [&](std::string_view sign) { return jinja.find(sign) != std::string_view::npos; };
  if (std::any_of(std::begin(kMore), std::end(kMore), has)) return std::nullopt;
  for (const Signs& signs : kSigns)
    if (std::all_of(signs.all.begin(), signs.all.end(), has) &&
        std::none_of(signs.none.begin(), signs.none.end(), has))
      return ChatFormat{signs.style, has("trim") || has("strip()")};
  return std::nullopt;
}

namespace {

// `what` is the template in messages.
ChatFormat format_of_text(const std::string& jinja, const std::string& what) {
  if (const auto format = recognised_chat_format(jinja)) return *format;
  throw UserError(Exit::config, str("data.chat_template: ", what,
                                    " is not one that ft knows, and ft does not execute templates. If it "
                                    "produces one of these formats, give that name: ",
                                    kChatFormats));
}

ChatFormat format_of_file(const fs::path& file) {
  const std::string name = printable(file.string());
  const auto text = read_if_there(file);
  if (!text) throw UserError(Exit::config, str("data.chat_template: there is no ", name));
  return format_of_text(*text, name);
}

}  // namespace

ChatFormat choose_chat_format(const std::optional<std::string>& setting, const fs::path& tokenizer) {
  std::error_code error;
  const fs::path folder = fs::is_directory(tokenizer, error) ? tokenizer : tokenizer.parent_path();
  if (setting) {
    if (const auto format = chat_format_by_name(*setting)) return *format;
    if (setting->ends_with(".jinja")) return format_of_file(folder / *setting);
    if (setting->find('{') == std::string::npos)
      throw UserError(Exit::config, str("data.chat_template: \"", printable(*setting, 60),
                                        "\" is not a chat "
                                        "format; there are ",
                                        kChatFormats));
    return format_of_text(*setting, "this template");
  }
  const auto own = own_template(folder);
  const std::string name = printable(folder.string());
  if (!own)
    throw UserError(Exit::input, str(name, ": the model has no chat_template; ", kChoose, kChatFormats));
  if (const auto format = recognised_chat_format(*own)) return *format;
  throw UserError(
      Exit::input,
      str(name, ": ft does not know the model's chat_template, and it does not execute templates; ", kChoose,
          kChatFormats));
}

}  // namespace ft
