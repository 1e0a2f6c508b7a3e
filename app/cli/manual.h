// ft help --man: the manual page, made from the tree of commands that is parsed.
#pragma once
#include <string>

#include "app/commands/command.h"

namespace ft::commands {

std::string manual(const CLI::App& root);  // in roff

}  // namespace ft::commands
