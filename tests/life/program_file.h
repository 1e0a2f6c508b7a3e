// Which program the tests start: ft, or ft on CUDA compiled for the host.
#pragma once
#include <string>

namespace ft::test {

std::string program_file();
const char* file_faults();  // the library that file_faults.cpp is

}  // namespace ft::test
