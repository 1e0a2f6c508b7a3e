// The way in which rows were written, kept in its folder, so that it is asked in the same way later: the file
// ft_prompts.json beside the tokenizer's. Other programs pass over it; a template of the run's own is also
// written as chat_template.jinja, which they read.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "data/config.h"
#include "data/rows/dataset.h"
#include "engine/files/json.h"

namespace ft {

inline constexpr const char* kPromptsFile = "ft_prompts.json";

struct KeptPrompts {
  Written written = Written::unknown;
  std::optional<std::string> chat_template;  // the name in data.chat_template; nothing: the folder's own
  std::string kwargs;                        // data.chat_template_kwargs as JSON; "": none
};

// Returns nothing if there is no such file. Throws UserError (exit 3) if it is not ft's.
std::optional<KeptPrompts> read_kept_prompts(const std::string& folder);

// Writes the file, and a template that is no name as chat_template.jinja. Rows of unknown form change
// nothing: the model's folder still decides.
void keep_prompts(const std::string& folder, Written, const DataConfig&,
                  const std::filesystem::path& tokenizer_path);

}  // namespace ft
