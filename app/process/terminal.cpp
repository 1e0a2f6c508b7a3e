#include "app/process/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "engine/core/environment.h"
#include "engine/core/error.h"

namespace ft {

std::optional<TerminalSize> terminal_size() {
  winsize size{};
  if (isatty(STDERR_FILENO) != 1 || variable("TERM") == "dumb") return std::nullopt;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return std::nullopt;
  return TerminalSize{size.ws_col, size.ws_row};
}

void set_terminal_size(int keeper, const TerminalSize& size) {
  const winsize all{.ws_row = static_cast<unsigned short>(size.rows),
                    .ws_col = static_cast<unsigned short>(size.columns),
                    .ws_xpixel = 0,
                    .ws_ypixel = 0};
  ioctl(keeper, TIOCSWINSZ, &all);
}

Terminal open_terminal(const TerminalSize& size) {
  const auto refuse = [] {
    throw UserError(Exit::hardware, str("cannot open a terminal for a process: ", std::strerror(errno)));
  };
  Terminal t;
  t.keeper = Socket(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  std::array<char, 128> name{};
  if (!t.keeper || grantpt(t.keeper.fd()) != 0 || unlockpt(t.keeper.fd()) != 0 ||
      ptsname_r(t.keeper.fd(), name.data(), name.size()) != 0)
    refuse();
  t.terminal = Socket(::open(name.data(), O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!t.terminal) refuse();
  termios raw{};
  if (tcgetattr(t.terminal.fd(), &raw) != 0) refuse();
  cfmakeraw(&raw);  // line feeds stay line feeds
  tcsetattr(t.terminal.fd(), TCSANOW, &raw);
  set_terminal_size(t.keeper.fd(), size);
  return t;
}

}  // namespace ft
