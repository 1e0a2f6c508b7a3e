// Saves how the training rows' prompts were written, so that later prompts are written in the same way. The
// file ft_prompts.json lies in the model's folder with the tokenizer's files, and other programs ignore it. A
// template given by the run is also written as chat_template.jinja, which they read.
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
  std::optional<std::string> chat_template;  // name in data.chat_template; nullopt: the folder's template
  std::string kwargs;                        // data.chat_template_kwargs as JSON; "": none
};

// Returns nullopt if there is no such file. Throws UserError (input) if ft did not write it.
std::optional<KeptPrompts> read_kept_prompts(const std::string& folder);

// Writes the file, and chat_template.jinja if data.chat_template is a template and not a name. Rows of
// unknown form change nothing: the model's folder decides as before.
void keep_prompts(const std::string& folder, Written, const DataConfig&,
                  const std::filesystem::path& tokenizer_path);

}  // namespace ft
