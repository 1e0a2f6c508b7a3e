// Scripts that complete ft's command line in a shell.
#pragma once
#include <string>

namespace ft {

const char* completion_script(const std::string& shell);  // bash, zsh or fish

}  // namespace ft
