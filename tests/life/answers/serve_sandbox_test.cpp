// ft serve --sandbox, from outside: it answers as it does without, and the kernel confirms that it is
// confined. tests/app/process/confine_test.cpp tests the limits of a confined process.
#include "app/process/confine.h"
#include "tests/life/answers/served.h"

namespace ft::test {
namespace {

// Returns the value of a line of /proc/PID/status, such as "Seccomp".
std::string status_of(pid_t process, const std::string& name) {
  std::ifstream lines("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  return "";
}

TEST(Sandbox, AServerInItAnswersAsWithout) {
  if (const std::string reason = reason_against_confining(); !reason.empty()) GTEST_SKIP() << reason;
  const Served w;
  std::vector<std::string> answers;
  for (const std::string& p : kPrompts) answers.push_back(Server(w, {"device=cpu"}).text("one", p));
  Server server(w, {"--sandbox", "device=cpu"});
  EXPECT_TRUE(w.says().find("sandbox: reads only " + kBase + ", a1, a2 and the system's libraries") !=
              std::string::npos)
      << w.says();
  EXPECT_EQ(status_of(server.pid(), "Seccomp"), "2");
  EXPECT_EQ(status_of(server.pid(), "NoNewPrivs"), "1");
  for (std::size_t i = 0; i < kPrompts.size(); ++i) EXPECT_EQ(server.text("one", kPrompts[i]), answers[i]);
  EXPECT_EQ(HttpClient(server.port).get("/").status, 200);
  EXPECT_EQ(server.stop(SIGTERM), 0) << w.says();
}

TEST(Sandbox, WhatNeedsMoreIsRefused) {
  if (const std::string reason = reason_against_confining(); !reason.empty()) GTEST_SKIP() << reason;
  const Workplace w("llama");
  std::ofstream(w / "model.gguf") << "GGUF";
  EXPECT_EQ(w.run({"serve", "--model", "model.gguf", "--sandbox", "device=cpu"}), 2);
  EXPECT_NE(w.says().find("--sandbox: model.gguf: a GGUF file is unpacked into a folder"), std::string::npos);
  EXPECT_EQ(w.run({"serve", "--model", "model", "--sandbox", "device=cuda"}), 2);
  EXPECT_NE(w.says().find("--sandbox: NVIDIA's driver opens device files"), std::string::npos) << w.says();
}

}  // namespace
}  // namespace ft::test
