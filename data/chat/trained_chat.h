// Makes a sample from a conversation: roles, weights and the chat template select the trained turns.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/config.h"
#include "data/rows/text_sample.h"

namespace ft {

// For each message, true or false if it says that it is trained or not.
using SaidTrained = std::vector<std::optional<bool>>;

// Returns a message's setting of its training: OpenAI's weight (0 or 1), or train (true or false). `where`
// names the message in errors.
std::optional<bool> said_trained(const Json& message, const std::string& where, const Place& at);

// Returns the conversation as the template gets it: with thoughts as data.reasoning_content has them, and as
// one text the contents of messages whose parts say that they are trained or not. Throws
// std::invalid_argument.
ChatTurns arranged(const ChatTurns&, const ChatTemplate&, const DataConfig&);

// Throws std::invalid_argument if the template refuses the conversation.
Sample trained_chat(const ChatTemplate&, const DataConfig&, const TextSampleBuilder&, const ChatTurns&,
                    const SaidTrained&, const Place& at);

// Throws UserError (config) for settings that have no effect on a template with {% generation %}.
void require_no_choice(const ChatTemplate&, const DataConfig&);

// Returns the value of a key; nullptr if it is absent or null.
const Json* member(const Json& object, const std::string& name);

}  // namespace ft
