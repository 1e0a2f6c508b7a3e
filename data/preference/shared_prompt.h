// Finds the prompt that a row does not name: the common beginning of its two answers, as TRL does.
#pragma once
#include <string>
#include <vector>

#include "data/files/row_reader.h"
#include "engine/files/json.h"

namespace ft {

// Removes the common beginning from both answers: characters, whose last space stays with the answers, or
// complete messages. If one answer is the beginning of the other, the last common character or message stays
// with both.
std::string take_shared_prompt(std::string& chosen, std::string& rejected);
std::vector<Json> take_shared_prompt(std::vector<Json>& chosen, std::vector<Json>& rejected);

// Returns the messages before two answers. If the prompt is a text or null, the answers are complete
// conversations, and their common beginning is the prompt, as in TRL's maybe_extract_prompt. If they have
// none in common, the text becomes a user's message before them.
std::vector<Json> prompt_of_chats(const Json& prompt, const std::string& name, std::vector<Json>& chosen,
                                  std::vector<Json>& rejected, const Place& at);

}  // namespace ft
