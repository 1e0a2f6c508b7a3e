// Reads .deepspeed_env: variables that DeepSpeed's users set for the ranks of several machines, NAME=VALUE a
// line.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft {

using Variables = std::vector<std::pair<std::string, std::string>>;

// Reads the variables of ~/.deepspeed_env, or of the file that DS_ENV_FILE names, in the home or working
// folder. Ignores ./.deepspeed_env unless DS_ENV_FILE names it: variables can make a program load code, and a
// folder may come from somebody else. Throws UserError (config) with file and line if a line is malformed.
Variables read_deepspeed_env();
void parse_deepspeed_env(std::string_view text, const std::string& file, Variables& to);

}  // namespace ft
