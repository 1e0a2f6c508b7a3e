// Messages of ShareGPT's form, {"from": "human", "value": "Hi"}, in the form of chat templates.
#pragma once
#include <string>

#include "data/files/row_reader.h"
#include "engine/files/json.h"

namespace ft {

// Roles: human, gpt, system, function_call (JSON of a call, or of a list of calls), observation, and other
// usual names for these. `where` names the message in errors. UserError (exit 3) for another role.
Json from_sharegpt(const Json& message, const std::string& where, const Place& at);

}  // namespace ft
