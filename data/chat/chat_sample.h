// Makes a sample from a conversation: its text tokenized in one piece, with labels for the trained tokens.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "data/chat/chat_format.h"
#include "data/chat/chat_turns.h"
#include "data/config.h"
#include "data/rows/text_sample.h"

namespace ft {

Sample make_chat_sample(std::span<const ChatPart> parts, const WantedTurns& wanted, const DataConfig& config,
                        const TextSampleBuilder& builder, const Place& at);

}  // namespace ft
