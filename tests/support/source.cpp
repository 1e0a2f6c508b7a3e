// The only test source whose compilation depends on the repository's path, so a compiler cache can reuse all
// others.
#include "tests/support/source.h"

std::string_view ft::source_root() { return FT_SOURCE_DIR; }
