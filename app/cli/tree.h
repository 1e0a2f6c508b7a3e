// The tree of commands that CLI11 parses.
#pragma once
#include "app/commands/command.h"

namespace ft::commands {

Names names_below(const CLI::App& app);
// Returns every option below `root`, as "train --config", "plan --json", ..., in the order of definition.
Names options_below(const CLI::App& root);

}  // namespace ft::commands
