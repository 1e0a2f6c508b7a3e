// Reads a file or a command line of another program into a draft of run.json.
#pragma once
#include <string>
#include <vector>

#include "app/translate/program.h"

namespace ft::translate {

// Returns the program of this name. Throws UserError (config) with the names that there are.
const Program& program_named(const std::string& name);

// Reads a file. `from`: the program's name; "": the file's keys show it. Throws UserError (config) if no
// program or several have these keys.
const Program& read_file_of(const std::string& path, const std::string& from, Draft&);

// Reads a command line, with its launcher and environment. `from` as above; "": the command shows it.
const Program& read_command(std::vector<std::string> words, const std::string& from, Draft&);

}  // namespace ft::translate
