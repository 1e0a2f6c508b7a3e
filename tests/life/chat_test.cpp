// ft chat on a terminal, from the outside.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "engine/io/file.h"
#include "tests/engine/io/temp_folder.h"
#include "tests/life/program.h"
#include "tests/support/source.h"

namespace ft::test {
namespace {

// A program on a terminal of its own: what is typed and what is seen.
class Terminal {
 public:
  explicit Terminal(std::vector<std::string> arguments) : keyboard_(posix_openpt(O_RDWR | O_NOCTTY)) {
    if (keyboard_ < 0 || grantpt(keyboard_) != 0 || unlockpt(keyboard_) != 0)
      throw std::system_error(errno, std::generic_category(), "no terminal to be had (is /dev/pts mounted?)");
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
  // What is shown until `condition` holds of it, or two minutes have passed.
  template <class Condition>
  std::string until(const Condition& condition) {
    std::string shown;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!condition(shown) && std::chrono::steady_clock::now() < end) {
      pollfd ready{keyboard_, POLLIN, 0};
      if (poll(&ready, 1, 100) == 0) continue;
      char part[4096];
      const ssize_t count = read(keyboard_, part, sizeof part);
      if (count <= 0) break;  // the program has gone
      shown.append(part, static_cast<std::size_t>(count));
    }
    return shown;
  }
  std::string until_it_asks() {
    return until(
        [](const std::string& shown) { return shown.ends_with("> ") || shown.ends_with("> \x1b[0m"); });
  }
  int finish() { return Workplace::finish(std::exchange(pid_, -1)); }

 private:
  int keyboard_;
  pid_t pid_ = -1;
};

// The demo's model, made to talk on and on.
struct Talker : TempFolder {
  Talker() {
    fs::copy(source_path("configs/demo/base"), *this / "model", fs::copy_options::recursive);
    const std::string file = *this / "model/config.json";
    Json config = Json::parse(contents(file));
    config["max_position_embeddings"] = 4096;
    write_file(file, config.dump());
    write_file(*this / "model/generation_config.json", "{\"eos_token_id\": []}");
  }
  std::vector<std::string> chat() const {
    return {"chat", "--model", *this / "model", "generation.max_new_tokens=4000"};
  }
};

TEST(Chat, ControlCStopsTheAnswerAndNotTheProgram) {
  const Talker talker;
  Terminal terminal(talker.chat());
  EXPECT_NE(terminal.until_it_asks().find("Ctrl-C stops an answer"), std::string::npos);
  for (int turn = 0; turn < 2; ++turn) {
    terminal.type("one two\n");
    const std::string begun = terminal.until([](const std::string& shown) { return shown.size() > 60; });
    EXPECT_TRUE(begun.starts_with("one two\r\n")) << begun;  // the terminal's echo
    terminal.type("\x03");
    const std::string rest = terminal.until_it_asks();
    EXPECT_TRUE(rest.ends_with("> ") || rest.ends_with("> \x1b[0m")) << rest;
    EXPECT_LT(begun.size() + rest.size(), 4000u);  // 4,000 tokens would have more characters
  }
  terminal.type("/quit\n");
  EXPECT_EQ(terminal.finish(), 0);
}

TEST(Chat, ControlCWhereNothingIsAnsweredEndsIt) {
  const Talker talker;
  Terminal terminal(talker.chat());
  terminal.until_it_asks();
  terminal.type("\x03");
  EXPECT_EQ(terminal.finish(), 128 + SIGINT);
}

}  // namespace
}  // namespace ft::test
