// Folders that are there after a cut of the power.
#pragma once
#include <string>

namespace ft {

// Makes a folder and those above it that are missing, and makes their names durable. Throws UserError
// (storage).
void make_folders(const std::string& folder);

}  // namespace ft
