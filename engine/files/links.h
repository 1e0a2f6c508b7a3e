// Symbolic links in output folders, which another user may have put there, also between a look and the
// opening. So the parts of a path are opened one by one, each within the folder that is already open.
#pragma once
#include <string>
#include <string_view>

#include "engine/files/safetensors/stored_bytes.h"

namespace ft {

// Throws UserError (storage) if a part of `name`, a file to write below `folder`, is a symbolic link, since
// the bytes would leave the folder. Parts may be missing. The folder itself may be a link.
void refuse_links(const std::string& folder, const std::string& name);

// Opens a file below a folder, as open() with these ways, and follows no symbolic link below the folder. With
// O_CREAT makes missing folders too. Throws UserError (storage) if a part of `name` is a symbolic link, or
// with the system's reason. The caller closes the result.
int open_below(const std::string& folder, const std::string& name, int ways);

// Writes a complete file below a folder, as write_file(), and makes missing folders. Throws UserError
// (storage) as open_below().
void write_below(const std::string& folder, const std::string& name, std::string_view text);

// Makes an empty folder below a folder, in place of one with contents. Throws UserError (storage) as
// open_below().
void make_empty_below(const std::string& folder, const std::string& name);

// Throws UserError (storage) unless folder/name is the file with this state, without a symbolic link below
// the folder.
void require_below(const std::string& folder, const std::string& name, const FileState&);

}  // namespace ft
