// Converts messages of ShareGPT's form, {"from": "human", "value": "Hi"}, to the form of chat templates.
#pragma once
#include <string>

#include "data/files/row_reader.h"
#include "engine/files/json.h"

namespace ft {

// Roles: human, gpt, system, function_call (JSON of a call, or of a list of calls), observation, and other
// usual names of these. `where` names the message in errors. Throws UserError (input) for another role.
Json from_sharegpt(const Json& message, const std::string& where, const Place& at);

}  // namespace ft
