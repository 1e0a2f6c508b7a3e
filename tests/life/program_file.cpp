// The path of the program; a separate file, like tests/support/source.cpp, for a compiler cache.
#include "tests/life/program_file.h"

std::string ft::test::program_file() { return FT_PROGRAM; }
const char* ft::test::file_faults() { return FT_FILE_FAULTS; }
