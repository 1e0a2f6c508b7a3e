// Thoughts of a conversation's answers. They are in a key of the message, reasoning_content or thinking, or
// in its content: <think>...</think> and then the answer.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "data/config.h"
#include "engine/files/json.h"

namespace ft {

// Returns the key from which a Jinja template reads thoughts: reasoning_content (Qwen3, DeepSeek, GLM) or
// thinking (GPT-OSS); "": neither.
std::string reasoning_key_of(std::string_view jinja);

// Moves or drops the thoughts of the assistant's messages. `key`: see reasoning_key_of. Line feeds around a
// thought that is moved go; in a content it is written as Qwen3's template does. A thought without <think> at
// its beginning ends at the first </think>: the prompt has opened it. Throws std::invalid_argument if
// thoughts cannot be moved: the template reads no key, a message has two thoughts, or its content is not
// text.
void arrange_reasoning(std::vector<Json>& messages, ReasoningContent rule, const std::string& key);

}  // namespace ft
