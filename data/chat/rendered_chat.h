// Conversations as tokens: whole ones, and up to where an answer begins.
#pragma once
#include <mutex>
#include <optional>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/rows/format.h"
#include "engine/files/json.h"

namespace ft {

class RenderedChat {
 public:
  using Messages = std::vector<Json>;  // {"role": text, "content": text, ...}

  // With data.chat_template, which is read when the first conversation is met: texts need none. Rows may be
  // rendered by several threads. What is given outlives it.
  RenderedChat(const DataConfig&, const std::filesystem::path& tokenizer_path, const Tokenizer&);
  // Both throw std::invalid_argument for a conversation that the template refuses.
  Tokenizer::Ids whole(const Messages&, const ChatInputs& with) const;
  Tokenizer::Ids prompt(const Messages&, const ChatInputs& with) const;
  const ChatTemplate& chat_template() const;
  static ChatTurns turns(const Messages&, const ChatInputs& with);

 private:
  static std::vector<ChatMessage> plain(const Messages&, const ChatInputs& with);

  const DataConfig& config_;
  std::filesystem::path tokenizer_path_;
  const Tokenizer& tokenizer_;
  mutable std::once_flag made_;
  mutable std::optional<ChatTemplate> template_;
};

// A list of messages. `name` is what errors call it.
RenderedChat::Messages read_messages(const Json& list, const std::string& name, const Place& at);

}  // namespace ft
