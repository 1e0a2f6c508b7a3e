// Parts of a message that say themselves if they are trained, as in axolotl: a content that is a list of
// texts with "train" or "weight".
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/chat/chat_format.h"
#include "data/chat/chat_sample.h"
#include "data/files/row_reader.h"
#include "engine/files/json.h"

namespace ft {

struct SaidPart {
  std::string text;
  std::optional<bool> trained;  // as the part says; empty: as its message
};
using SaidParts = std::vector<SaidPart>;

// Returns a message's parts if one of them says that it is trained or not; else none. `where` names the
// message in errors. Throws UserError (input).
SaidParts said_parts(const Json& message, const std::string& where, const Place&);

std::string joined_text(const SaidParts&);

// Returns the stretches of a conversation's text that parts of a message (number `message`, from 0) keep out
// of training. `usual`: parts that say nothing are trained. Text before the content, such as a thought, is
// trained as these; text behind it as the last part, and with `ends` also the end of the message. Throws
// std::invalid_argument if the template does not write the message's content in one piece, once.
std::vector<LeftOut> kept_out_by_parts(std::span<const ChatPart> written, std::size_t message,
                                       const SaidParts& parts, bool usual, bool ends);

}  // namespace ft
