#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tests/life/program.h"

namespace ft::test {

// A program on its own terminal, with keys typed by the test.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> arguments, unsigned short columns = 80)
      : keyboard_(posix_openpt(O_RDWR | O_NOCTTY)) {
    if (keyboard_ < 0 || grantpt(keyboard_) != 0 || unlockpt(keyboard_) != 0)
      throw std::system_error(errno, std::generic_category(), "no terminal to be had (is /dev/pts mounted?)");
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ioctl(keyboard_, TIOCSWINSZ, &size);
    const std::string screen = ptsname(keyboard_);
    std::string program = program_file();
    std::vector<char*> argv{program.data()};
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ != 0) return;
    setsid();
    const int tty = open(screen.c_str(), O_RDWR);
    ioctl(tty, TIOCSCTTY, 0);
    for (const int fd : {0, 1, 2}) dup2(tty, fd);
    execv(argv[0], argv.data());
    _exit(98);
  }
  ~Terminal() {
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    close(keyboard_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void type(const std::string& keys) const {
    ASSERT_EQ(write(keyboard_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // Returns the output until `condition` holds for it, or until two minutes have passed.
  template <class Condition>
  std::string until(const Condition& condition) {
    std::string shown;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!condition(shown) && std::chrono::steady_clock::now() < end) {
      pollfd ready{keyboard_, POLLIN, 0};
      if (poll(&ready, 1, 100) == 0) continue;
      char part[4096];
      const ssize_t count = read(keyboard_, part, sizeof part);
      if (count <= 0) break;  // the program has ended
      shown.append(part, static_cast<std::size_t>(count));
    }
    return shown;
  }
  std::string until_it_asks() {
    return until(
        [](const std::string& shown) { return shown.ends_with("> ") || shown.ends_with("> \x1b[0m"); });
  }
  std::string until_it_ends() {
    return until([](const std::string&) { return false; });
  }
  int finish() { return Workplace::finish(std::exchange(pid_, -1)); }

 private:
  int keyboard_;
  pid_t pid_ = -1;
};

}  // namespace ft::test
