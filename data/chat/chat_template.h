// The chat template of a run: the one that data.chat_template names, else the model's own.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_format.h"
#include "data/chat/chat_turns.h"

namespace ft {

class ChatTemplate {
 public:
  // `setting` is data.chat_template: a format's name, the name of one of the model's templates, a .jinja file
  // in the tokenizer's folder (or with its whole path), or a template's text. `tokenizer_path` is the folder,
  // or file, of the tokenizer. UserError: exit 2 for a setting that is none of these, exit 3 where the
  // model's template is missing or is none.
  ChatTemplate(const std::optional<std::string>& setting, const std::filesystem::path& tokenizer_path,
               const Tokenizer& tokenizer);

  // A format of ft's; null: templates.
  const ChatFormat* format() const { return format_ ? &*format_ : nullptr; }
  // Among several templates, transformers' choice: tool_use where there are tools, even an empty list, else
  // default. Throws std::invalid_argument where there is neither.
  const TurnWriter& writer(const ChatInputs&) const;
  // A template says itself what is trained.
  bool marks() const;

 private:
  struct Named {
    std::string name;
    TurnWriter writer;
  };
  std::optional<ChatFormat> format_;
  std::vector<Named> templates_;
  const Tokenizer& tokenizer_;

  void add(const std::string& name, const std::string& jinja, const std::filesystem::path& folder, Exit exit,
           const std::string& where);
};

// True for a data.chat_template that names a file of a template.
bool is_template_file(const std::string& setting);

// Throws std::invalid_argument where a format of ft's would ignore what is there.
void require_plain(const ChatInputs&);

// The format that a Jinja template looks like, by its words; nothing when it is like none of ft's.
std::optional<ChatFormat> recognised_chat_format(std::string_view jinja);

}  // namespace ft
