// The program that the tests start: ft, or ft with CUDA compiled for the host.
#pragma once
#include <string>

namespace ft::test {

std::string program_file();
const char* file_faults();  // the library built from file_faults.cpp

}  // namespace ft::test
