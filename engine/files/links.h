// Symbolic links in output folders, which another user may have put there.
#pragma once
#include <string>

namespace ft {

// Throws UserError (storage) if a part of `name`, a file to write below `folder`, is a symbolic link, since
// the bytes would leave the folder. Parts may be missing. The folder itself may be a link.
void refuse_links(const std::string& folder, const std::string& name);

}  // namespace ft
