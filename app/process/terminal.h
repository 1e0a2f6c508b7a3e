// Terminals: the size of this process's, and one for a child to draw on.
#pragma once
#include <optional>

#include "engine/dist/socket.h"

namespace ft {

struct TerminalSize {
  int columns = 0, rows = 0;
  bool operator==(const TerminalSize&) const = default;
};

// Of the terminal behind stderr; empty: there is none, or TERM says that it can only write lines.
std::optional<TerminalSize> terminal_size();

// What is written to `terminal` can be read from `keeper`, unchanged. UserError(Exit::hardware) where the system
// has none.
struct Terminal {
  Socket keeper, terminal;
};
Terminal open_terminal(const TerminalSize& size);
void set_terminal_size(int keeper, const TerminalSize& size);

}  // namespace ft
