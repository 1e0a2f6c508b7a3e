// ft chat: a conversation. On a terminal it asks with "> "; through a pipe every line is a turn, and only
// answers go to stdout. With a chat format the model sees the turns so far; without one every line is a
// separate prompt, as in prompt/response data. With an encoder-decoder every line is a separate source.
#pragma once
#include "app/answers/args.h"
#include "engine/core/error.h"

namespace ft {

Exit chat(const AnswererArgs&);

}  // namespace ft
