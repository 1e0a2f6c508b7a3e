// Runs a command under ptrace and does one thing at its n-th system call that changes files: kills the
// command, lets half of a write through before that, makes the call fail, shortens a write, or sends a
// signal. Counts calls of all its threads and children, in order, for files below the command's folder except
// its stdout and stderr. x86-64 only.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tests/crash/traced.h"

namespace ft::test {

enum class Fault : std::uint8_t { none, kill, half_write, error, short_write, signal };

struct Trouble {
  Fault fault = Fault::none;
  int at = 0;      // number of the call, from 1
  int number = 0;  // errno of an error, or the signal
};

struct Outcome {
  int exit = 0;      // exit code, or 128 plus the number of the signal that ended the command
  int calls = 0;     // calls that change files
  std::string call;  // the call at which the trouble came, such as "write out/log.jsonl"
};

// Starts `words` in `folder`, with stdout and stderr in files of these names there.
Outcome run_in_trouble(const std::vector<std::string>& words, const std::filesystem::path& folder,
                       const Trouble& trouble);

}  // namespace ft::test
