#include "engine/files/new_file.h"

#include <filesystem>

#include "engine/core/error.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"

namespace ft {

void check_new_file(const std::string& file, bool overwrite) {
  std::error_code none;
  if (std::filesystem::is_directory(file, none))
    throw UserError(Exit::config,
                    str("--output: ", printable(file), " is a folder; give the name of a file"));
  if (!overwrite && path_exists(file))
    throw UserError(Exit::config,
                    str("--output: ", printable(file), " exists; give another name, or --overwrite"));
}

}  // namespace ft
