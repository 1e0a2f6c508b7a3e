// A command of ft that listens at a free port of this machine until the test ends.
#pragma once
#include <gtest/gtest.h>

#include "tests/life/answers/http_client.h"

namespace ft::test {

class Listening {
 public:
  // Starts the command with its options, and waits until it listens.
  Listening(const Workplace& w, std::vector<std::string> words) {
    words.insert(words.end(), {"--port", "0"});
    fs::remove(w / "stderr");
    pid_ = w.start(words);
    EXPECT_TRUE(w.wait_for_words("Ctrl-C ends it")) << w.says();
    const std::string said = w.says(), before = "127.0.0.1:";
    if (const auto at = said.find(before); at != std::string::npos)
      port = std::stoi(said.substr(at + before.size()));
  }
  ~Listening() { stop(SIGKILL); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;
  int stop(int signal) {
    if (pid_ < 0) return -1;
    kill(pid_, signal);
    return Workplace::finish(std::exchange(pid_, -1));
  }
  pid_t pid() const { return pid_; }
  int port = 0;

 private:
  pid_t pid_ = -1;
};

}  // namespace ft::test
