#include "engine/files/links.h"

#include <sys/stat.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {

void refuse_links(const std::string& folder, const std::string& name) {
  for (std::size_t end = 0; end < name.size(); ++end) {
    end = std::min(name.find('/', end), name.size());
    const std::string part = join_path(folder, name.substr(0, end));
    struct stat info {};
    if (::lstat(part.c_str(), &info) == 0 && S_ISLNK(info.st_mode))
      throw UserError(Exit::storage, str(printable(part),
                                         ": is a symbolic link; ft writes through no link in an output "
                                         "folder; remove it"));
  }
}

}  // namespace ft
