// A conversation as a sample: the turns that roles, weights and the chat template select are trained.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "data/chat/chat_template.h"
#include "data/config.h"
#include "data/rows/text_sample.h"

namespace ft {

// For each message: true or false where it says itself that it is trained or not.
using SaidTrained = std::vector<std::optional<bool>>;

// The word of a message about its training: OpenAI's weight (0 or 1), or train (true or false). `where` names
// the message in errors.
std::optional<bool> said_trained(const Json& message, const std::string& where, const Place& at);

// Throws std::invalid_argument for a conversation that the template refuses.
Sample trained_chat(const ChatTemplate&, const DataConfig&, const TextSampleBuilder&, const ChatTurns&,
                    const SaidTrained&, const Place& at);

// UserError (exit 2) for settings that have no effect on a template with {% generation %}.
void require_no_choice(const ChatTemplate&, const DataConfig&);

// The value of a key; nullptr if it is absent or null.
const Json* member(const Json& object, const std::string& name);

}  // namespace ft
