// The chat template of a run: the one that data.chat_template names, else the model's.
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
  // (in the tokenizer's folder, or with its full path), or a template's text. `tokenizer_path` is the
  // tokenizer's folder or file. Throws UserError (config) if the setting is none of these, and UserError
  // (input) if the model's template is missing or not valid.
  ChatTemplate(const std::optional<std::string>& setting, const std::filesystem::path& tokenizer_path,
               const Tokenizer& tokenizer);

  // Returns a format of ft; null: Jinja templates are used.
  const ChatFormat* format() const { return format_ ? &*format_ : nullptr; }
  // Chooses among several templates as transformers does: tool_use if there are tools, even an empty list,
  // else default. Throws std::invalid_argument if the model has neither.
  const TurnWriter& writer(const ChatInputs&) const;
  // Returns true if the template marks the trained text itself.
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

// Returns true if data.chat_template names a template's file.
bool is_template_file(const std::string& setting);

// Throws std::invalid_argument if there are inputs, because ft's formats would ignore them.
void require_plain(const ChatInputs&);

// Returns the format that a Jinja template's words resemble; nullopt if it resembles none of ft's.
std::optional<ChatFormat> recognised_chat_format(std::string_view jinja);

}  // namespace ft
