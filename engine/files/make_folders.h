// Folders that survive a power cut.
#pragma once
#include <string>

namespace ft {

// Makes a folder and the missing ones above it, and makes their names durable. Throws UserError (storage).
void make_folders(const std::string& folder);

}  // namespace ft
