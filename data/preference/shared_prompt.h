// The prompt that a row does not name: the common beginning of its two answers, as TRL finds it.
#pragma once
#include <string>
#include <vector>

#include "data/files/row_reader.h"
#include "engine/files/json.h"

namespace ft {

// Takes it from both: characters, of which a space at the end stays with the answers; or whole messages. Of
// two of which one begins with the other, the last that they share stays with them.
std::string take_shared_prompt(std::string& chosen, std::string& rejected);
std::vector<Json> take_shared_prompt(std::vector<Json>& chosen, std::vector<Json>& rejected);

// The messages before two answers. If the prompt is a text, or null, the answers are whole conversations, and
// their common beginning is the prompt, as in TRL's maybe_extract_prompt. Answers that share nothing have the
// text as the user's message before them.
std::vector<Json> prompt_of_chats(const Json& prompt, const std::string& name, std::vector<Json>& chosen,
                                  std::vector<Json>& rejected, const Place& at);

}  // namespace ft
