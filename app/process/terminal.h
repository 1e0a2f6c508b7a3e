// Terminals: the size of this process's terminal, and a terminal for a child to draw on.
#pragma once
#include <optional>

#include "engine/ranks/socket.h"

namespace ft {

struct TerminalSize {
  int columns = 0, rows = 0;
  bool operator==(const TerminalSize&) const = default;
};

// Returns the size of the terminal behind stderr. Empty: stderr is not a terminal, or TERM is dumb.
std::optional<TerminalSize> terminal_size();

// A pair: `keeper` reads the bytes that are written to `terminal`. open_terminal throws UserError (hardware)
// if the system has no terminal left.
struct Terminal {
  Socket keeper, terminal;
};
Terminal open_terminal(const TerminalSize& size);
void set_terminal_size(int keeper, const TerminalSize& size);

}  // namespace ft
