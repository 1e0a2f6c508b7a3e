// The tree of commands that CLI11 parses.
#pragma once
#include "app/commands/command.h"

namespace ft::commands {

Names names_below(const CLI::App& app);
// "train --config", "plan --json", ...: every option below `root`, in the order of their definition.
Names options_below(const CLI::App& root);

}  // namespace ft::commands
