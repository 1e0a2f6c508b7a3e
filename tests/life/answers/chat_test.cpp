// ft chat on a terminal, tested from outside.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "engine/files/file.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/life/terminal.h"
#include "tests/support/source.h"

namespace ft::test {
namespace {

// The demo's model, changed so that its answers never end.
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

TEST(Chat, ASecondControlCWithoutAnAnswerEndsIt) {
  const Talker talker;
  Terminal terminal(talker.chat());
  // A person does not press a key in the millisecond between the prompt and the read.
  const auto press_control_c = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    terminal.type("\x03");
  };
  terminal.until_it_asks();
  press_control_c();
  EXPECT_NE(terminal.until_it_asks().find("again"), std::string::npos);
  terminal.type("one two\n");  // the chat goes on, and the next Control-C is a first one again
  terminal.until([](const std::string& shown) { return shown.size() > 60; });
  terminal.type("\x03");
  terminal.until_it_asks();
  press_control_c();
  EXPECT_NE(terminal.until_it_asks().find("again"), std::string::npos);
  terminal.type("\x03");
  EXPECT_EQ(terminal.finish(), 128 + SIGINT);
}

}  // namespace
}  // namespace ft::test
