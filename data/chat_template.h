// The chat format of a run: the one that data.chat_template names, else the model's own if ft knows it. ft
// does not execute templates: they are programs.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "data/chat_format.h"

namespace ft {

// `setting` is data.chat_template: a format's name, a .jinja file in the tokenizer's folder (or with its
// whole path), or a template's text. `tokenizer` is the folder, or file, of the tokenizer. UserError: exit
// 2 for a setting that is neither, exit 3 where the model's template is missing or not known.
ChatFormat choose_chat_format(const std::optional<std::string>& setting,
                              const std::filesystem::path& tokenizer);

// The format that a Jinja template writes, recognised by its words; nothing when it is none of ft's, or has
// more in it, such as tools, dates or a system message of its own.
std::optional<ChatFormat> recognised_chat_format(std::string_view jinja);

}  // namespace ft
