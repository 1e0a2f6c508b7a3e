// The only file of the tests that is compiled differently in every copy of the repository: a compiler's cache
// knows all others.
#include "tests/support/source.h"

std::string_view ft::source_root() { return FT_SOURCE_DIR; }
