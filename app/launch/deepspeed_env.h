// .deepspeed_env: variables that DeepSpeed's users set for the ranks of several machines, NAME=VALUE a line.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ft {

using Variables = std::vector<std::pair<std::string, std::string>>;

// Those of ~/.deepspeed_env, or of the file that DS_ENV_FILE names instead, there or in the working folder. A
// ./.deepspeed_env that nobody named is not read: variables can make a program load code, and a folder that
// came from elsewhere may not. UserError(Exit::config) with file and line.
Variables read_deepspeed_env();
void parse_deepspeed_env(std::string_view text, const std::string& file, Variables& to);

}  // namespace ft
