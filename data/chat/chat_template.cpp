#include "data/chat/chat_template.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/files/files.h"
#include "engine/core/error.h"
#include "engine/files/file.h"
#include "engine/files/json.h"
#include "engine/files/near_path.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongest = std::int64_t{1} << 20;  // bytes of a template
constexpr const char* kDefault = "default";
constexpr const char* kToolUse = "tool_use";
constexpr const char* kMoreTemplates = "additional_chat_templates";
constexpr JsonRules kConfigRules{.max_bytes = std::size_t{64} << 20};

struct Signs {
  ChatStyle style;
  std::vector<std::string_view> all;   // the template contains each
  std::vector<std::string_view> none;  // the template contains none of these
};

// Words in templates that do more than put messages between markers.
constexpr std::string_view kMore[] = {"tool",      "date",      "strftime", "You are",   "<think", "thinking",
                                      "documents", "reasoning", "image",    "Knowledge", "macro"};

std::optional<JsonObject> config_of(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  return JsonObject::read(file.string(), kConfigRules);
}

std::optional<std::string> read_if_there(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  return read_file(file.string(), kLongest);
}

// Returns the model's templates by name. chat_template.jinja takes precedence over chat_template in
// tokenizer_config.json, which is a text, or a list of named texts. additional_chat_templates/NAME.jinja add
// to either.
std::map<std::string, std::string> own_templates(const fs::path& folder) {
  std::map<std::string, std::string> out;
  if (auto text = read_if_there(folder / "chat_template.jinja")) {
    out[kDefault] = std::move(*text);
  } else if (const auto config = config_of(folder / "tokenizer_config.json");
             config && config->has("chat_template")) {
    if (!config->is_array("chat_template"))
      out[kDefault] = config->text("chat_template");
    else
      for (const JsonObject& entry : config->objects("chat_template"))
        out[entry.text("name")] = entry.text("template");
  }
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder / kMoreTemplates, none))
    if (is_template_file(entry.path().string()))
      out[entry.path().stem().string()] = read_file(entry.path().string(), kLongest);
  return out;
}

// Returns bos_token and so on, if the tokenizer has them.
jinja::Template::Variables special_names(const fs::path& folder, const Tokenizer& tokenizer) {
  jinja::Template::Variables out;
  const auto add = [&](const std::string& name, const std::string& token) {
    if (std::none_of(out.begin(), out.end(), [&](const auto& v) { return v.first == name; }))
      out.emplace_back(name, jinja::Value::text(token));
  };
  for (const auto& [name, id] :
       {std::pair{"bos_token", tokenizer.bos()}, std::pair{"eos_token", tokenizer.eos()},
        std::pair{"unk_token", tokenizer.unk()}, std::pair{"pad_token", tokenizer.pad()}})
    if (id) add(name, tokenizer.token(*id));
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"})
    if (const auto config = config_of(folder / file))
      for (const auto& [name, token] : own_special_tokens(*config)) add(name, token.content);
  return out;
}

std::string listed(const std::map<std::string, std::string>& templates) {
  std::string list;
  for (const auto& [name, _] : templates) list += (list.empty() ? "" : ", ") + printable(name, 40);
  return list;
}

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

bool is_template_file(const std::string& setting) { return extension_of(setting) == ".jinja"; }

ChatTemplate::ChatTemplate(const std::optional<std::string>& setting, const fs::path& tokenizer_path,
                           const Tokenizer& tokenizer)
    : tokenizer_(tokenizer) {
  std::error_code error;
  const fs::path folder =
      fs::is_directory(tokenizer_path, error) ? tokenizer_path : tokenizer_path.parent_path();
  const std::string name = printable(folder.string());
  if (setting) {
    if ((format_ = chat_format_by_name(*setting))) return;
    if (is_template_file(*setting)) {
      const std::string file = (folder / *setting).string();
      const auto text = read_if_there(file);
      if (!text)
        throw UserError(Exit::config,
                        str("data.chat_template: there is no ", printable(file), hint_about_path(file)));
      add(kDefault, *text, folder, Exit::input, printable(file) + ": chat_template");
      return;
    }
    if (setting->find('{') != std::string::npos) {
      add(kDefault, *setting, folder, Exit::config, "data.chat_template:");
      return;
    }
  }
  const std::map<std::string, std::string> own = own_templates(folder);
  if (setting) {
    const auto it = own.find(*setting);
    if (it == own.end())
      throw UserError(Exit::config, str("data.chat_template: \"", printable(*setting, 60),
                                        "\" is not a chat format; there are ", kChatFormats,
                                        own.empty() ? ""
                                                    : ", and the model's templates: " + listed(own) +
                                                          "; leave the setting out for the model's default"));
    add(it->first, it->second, folder, Exit::input, name + ": chat_template " + printable(it->first, 40));
    return;
  }
  if (own.empty())
    throw UserError(Exit::input,
                    str(name,
                        ": the model has no chat_template; set data.chat_template to the one that the "
                        "model was trained with: ",
                        kChatFormats));
  if (own.size() > 1 && !own.contains(kDefault) && !own.contains(kToolUse))
    throw UserError(Exit::input, str(name,
                                     ": the model has several chat templates and none is the default; set "
                                     "data.chat_template to one of them: ",
                                     listed(own)));
  for (const auto& [key, jinja] : own)
    if (own.size() == 1 || key == kDefault || key == kToolUse)
      add(key, jinja, folder, Exit::input,
          name + ": chat_template" + (key == kDefault ? "" : " " + printable(key, 40)));
}

void ChatTemplate::add(const std::string& name, const std::string& jinja, const fs::path& folder, Exit exit,
                       const std::string& where) {
  try {
    templates_.push_back({name, TurnWriter(jinja, recognised_chat_format(jinja), tokenizer_,
                                           special_names(folder, tokenizer_))});
  } catch (const jinja::Error& wrong) {
    throw UserError(exit, str(where, " line ", wrong.line, ": ", printable(wrong.what())));
  }
}

void require_plain(const ChatInputs& with) {
  const char* beside = !with.tools.is_null()    ? "tools"
                       : !with.kwargs.is_null() ? "chat_template_kwargs"
                                                : nullptr;
  if (beside)
    throw std::invalid_argument(
        str(beside, ": ft's chat formats do not use it; the model's own template may"));
}

const TurnWriter& ChatTemplate::writer(const ChatInputs& with) const {
  if (templates_.size() == 1) return templates_[0].writer;
  const char* name = with.tools.is_null() ? kDefault : kToolUse;
  for (const Named& t : templates_)
    if (t.name == name) return t.writer;
  for (const Named& t : templates_)
    if (t.name == kDefault) return t.writer;
  throw std::invalid_argument("the model has no default chat template; set data.chat_template");
}

bool ChatTemplate::marks() const {
  return std::any_of(templates_.begin(), templates_.end(), [](const Named& t) { return t.writer.marks(); });
}

}  // namespace ft
