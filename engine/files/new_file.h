// The name of a file that a command is to write.
#pragma once
#include <string>

namespace ft {

// Throws UserError (config) if `file` is a folder, or exists although `overwrite` is false.
void check_new_file(const std::string& file, bool overwrite);

}  // namespace ft
