// Which program; like tests/support/source.cpp a file of its own, for a compiler's cache.
#include "tests/life/program_file.h"

std::string ft::test::program_file() { return FT_PROGRAM; }
const char* ft::test::file_faults() { return FT_FILE_FAULTS; }
