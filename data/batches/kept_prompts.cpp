#include "data/batches/kept_prompts.h"

#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kLongestTemplate = std::int64_t{1} << 20;  // bytes

// Returns the template's text if data.chat_template is a template or names a file with one; see ChatTemplate.
std::optional<std::string> own_template(const std::string& setting, const fs::path& tokenizer_path) {
  std::error_code error;
  const fs::path folder =
      fs::is_directory(tokenizer_path, error) ? tokenizer_path : tokenizer_path.parent_path();
  if (setting.ends_with(".jinja")) return read_file((folder / setting).string(), kLongestTemplate);
  if (setting.find('{') != std::string::npos) return setting;
  return std::nullopt;
}

}  // namespace

std::optional<KeptPrompts> read_kept_prompts(const std::string& folder) {
  const std::string file = join_path(folder, kPromptsFile);
  if (!path_exists(file)) return std::nullopt;
  const JsonObject j = JsonObject::read(file);
  KeptPrompts kept;
  const auto written = value_of<Written>(j.text("prompts_written"));
  if (!written) j.refuse("prompts_written", "one of plain, alpaca, chat");
  kept.written = *written;
  if (j.has("chat_template")) {
    kept.chat_template = j.text("chat_template");
    if (kept.chat_template->ends_with(".jinja") || kept.chat_template->find('{') != std::string::npos)
      j.refuse("chat_template", "the name of a format or of one of the model's templates");
  }
  if (j.has("chat_template_kwargs")) kept.kwargs = json_text(j.object("chat_template_kwargs").json(), -1);
  return kept;
}

void keep_prompts(const std::string& folder, Written written, const DataConfig& config,
                  const fs::path& tokenizer_path) {
  if (written == Written::unknown) return;
  Json j{{"prompts_written", name_of(written)}};
  if (written == Written::chat) {
    if (config.chat_template) {
      if (const auto own = own_template(*config.chat_template, tokenizer_path))
        write_file(join_path(folder, "chat_template.jinja"), *own);
      else
        j["chat_template"] = *config.chat_template;
    }
    if (!config.chat_template_kwargs.text.empty())
      j["chat_template_kwargs"] = Json::parse(config.chat_template_kwargs.text);
  }
  write_file(join_path(folder, kPromptsFile), json_text(j) + "\n");
}

}  // namespace ft
