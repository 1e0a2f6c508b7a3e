// The help of a command as CLI11 writes it, shown on stdout.
#pragma once
#include <string>

#include "engine/core/error.h"

namespace ft::commands {

Exit show_help(const std::string& text);

}  // namespace ft::commands
