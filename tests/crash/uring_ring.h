// Reads the submissions of a traced process's io_uring from its memory.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/crash/traced.h"

namespace ft::test {

struct Submission {
  int opcode = 0, flags = 0, file = -1;
  std::int64_t at = 0;  // in the file
  Argument data = 0;    // address
  std::uint32_t bytes = 0;
};

// Copies bytes of a thread's process; fewer if it does not have them.
std::string memory_at(pid_t thread, Argument address, std::size_t bytes);

class Rings {
 public:
  // Call after io_uring_setup(entries, parameters) returned a file.
  void set_up(pid_t thread, int file, Argument parameters);
  // Call after mmap returned an address for a file of a ring.
  void mapped(pid_t thread, int file, Argument offset, Argument address);
  // Returns what io_uring_enter(file, count) will submit. Call before it.
  std::vector<Submission> submitted(pid_t thread, int file, std::uint32_t count) const;

 private:
  struct Ring {
    std::uint32_t head = 0, tail = 0, mask = 0, array = 0;  // offsets below `at`
    bool direct = false;                                    // without an array
    Argument at = 0, entries = 0;                           // addresses
  };
  using Key = std::pair<pid_t, int>;  // process, file
  static Key key(pid_t thread, int file);

  std::map<Key, Ring> rings_;
};

}  // namespace ft::test
