// A UserError is a mistake that the user can fix. Its message names the mistake, its place and a remedy; its
// exit code is for scripts.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "engine/core/require.h"

namespace ft {

enum class Exit : int {
  done = 0,
  config = 2,      // the run configuration or the command line
  input = 3,       // a model, tokenizer or data file
  checkpoint = 4,  // a checkpoint that is missing or damaged
  memory = 5,      // the run needs more memory than there is
  storage = 6,     // writing failed
  numeric = 7,     // NaN or Inf
  peer_lost = 8,   // another rank went away
  hang = 9,        // another rank does not answer
  hardware = 10,
  mismatch = 11,    // authentication or version
  corruption = 12,  // ranks differ in bits that must be equal
  preempted = 75,   // stopped by a signal with a checkpoint saved
};

struct UserError : std::runtime_error {
  UserError(Exit exit, const std::string& what) : std::runtime_error(what), code(exit) {}
  Exit code;
};

// Joins values into a text: str("rank ", 3, " of ", 8).
template <class... Parts>
std::string str(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Makes text from a file or a user safe to print: control characters and bytes that are not UTF-8 become
// \xNN. Cuts the text at `limit` bytes.
std::string printable(std::string_view text, std::size_t limit = 200);

}  // namespace ft
