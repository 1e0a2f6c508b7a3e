// Makes a sample from a conversation: its text tokenized in one piece, with labels for the trained tokens.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat/chat_format.h"
#include "data/chat/chat_turns.h"
#include "data/config.h"
#include "data/rows/text_sample.h"

namespace ft {

// A stretch [begin, end) of a conversation's text that is not trained.
struct LeftOut {
  std::size_t begin = 0, end = 0;
};

// Finds <think>, white space, </think> and the white space behind: an answer without a thought.
std::vector<LeftOut> empty_thoughts(std::string_view text);

// Takes the tokens that lie completely in one of the stretches out of the labels of a sample of `text`.
void leave_out(Sample&, std::string_view text, std::span<const LeftOut>, const Tokenizer&);

Sample make_chat_sample(std::span<const ChatPart> parts, const WantedTurns& wanted, const DataConfig& config,
                        const TextSampleBuilder& builder, const Place& at,
                        std::vector<LeftOut> left_out = {});

}  // namespace ft
