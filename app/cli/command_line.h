// The command line: commands, options and messages about mistakes. Only its .cpp file knows CLI11.
#pragma once
#include <string>
#include <vector>

namespace ft {

// Runs the command; returns the process's exit code. Errors are printed on stderr.
int run_command_line(const std::vector<std::string>& arguments);

// Returns all options, as "train --config", "plan --json", ..., for a test that notices changes.
std::vector<std::string> all_options();

}  // namespace ft
