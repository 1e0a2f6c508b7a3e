// Conversations as tokens: whole ones, and up to where an answer begins.
#pragma once
#include <vector>

#include "data/chat_template.h"
#include "data/format.h"
#include "engine/io/json.h"

namespace ft {

class RenderedChat {
 public:
  using Messages = std::vector<Json>;  // {"role": text, "content": text, ...}

  RenderedChat(const DataConfig&, const std::filesystem::path& tokenizer_path, const Tokenizer&);
  // tools: see ChatTools. Both throw std::invalid_argument for a conversation that the template refuses.
  Tokenizer::Ids whole(const Messages&, const Json& tools) const;
  Tokenizer::Ids prompt(const Messages&, const Json& tools) const;

 private:
  static ChatTurns turns(const Messages&, const Json& tools);
  static std::vector<ChatMessage> plain(const Messages&, const Json& tools);

  ChatTemplate template_;
  const Tokenizer& tokenizer_;
};

// A list of messages. `name` is what errors call it.
RenderedChat::Messages read_messages(const Json& list, const std::string& name, const Place& at);

}  // namespace ft
