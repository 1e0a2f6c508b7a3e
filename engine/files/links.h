// Symbolic links in output folders, which another user may have put there.
#pragma once
#include <string>

namespace ft {

// Throws UserError (storage) if a part of `name`, which stands for a file to be written below `folder`, is a
// symbolic link: what is written would leave the folder. Missing parts are fine. The folder itself may be a
// link.
void refuse_links(const std::string& folder, const std::string& name);

}  // namespace ft
