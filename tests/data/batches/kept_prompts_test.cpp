// The file that records how a model's training rows were written.
#include "data/batches/kept_prompts.h"

#include <gtest/gtest.h>

#include "engine/files/file.h"
#include "tests/data/scratch.h"

namespace ft::test {
namespace {

TEST(KeptPrompts, ComeBackAsTheyWere) {
  const Scratch scratch;
  const std::string folder = scratch.folder().string();
  EXPECT_FALSE(read_kept_prompts(folder));
  keep_prompts(folder, Written::unknown, {}, folder);
  EXPECT_FALSE(read_kept_prompts(folder));
  DataConfig config;
  config.chat_template = "llama3";
  config.chat_template_kwargs.text = R"({"think": false})";
  keep_prompts(folder, Written::chat, config, folder);
  const auto kept = read_kept_prompts(folder);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->written, Written::chat);
  EXPECT_EQ(kept->chat_template, "llama3");
  EXPECT_EQ(kept->kwargs, R"({"think":false})");
  keep_prompts(folder, Written::plain, config, folder);
  EXPECT_FALSE(read_kept_prompts(folder)->chat_template);
}

TEST(KeptPrompts, ATemplateOfTheRunsOwnBecomesTheFolders) {
  const Scratch scratch;
  const std::string folder = scratch.folder().string();
  scratch.write("mine.jinja", "{{ messages }}");
  DataConfig config;
  for (const std::string setting : {"mine.jinja", "{{ messages }}"}) {
    config.chat_template = setting;
    keep_prompts(folder, Written::chat, config, folder);
    EXPECT_FALSE(read_kept_prompts(folder)->chat_template);
    EXPECT_EQ(read_file((scratch.folder() / "chat_template.jinja").string(), 100), "{{ messages }}");
  }
}

TEST(KeptPrompts, RefusesFilesThatFtDidNotWrite) {
  const Scratch scratch;
  const auto error = [&](const std::string& text) {
    scratch.write(kPromptsFile, text);
    return error_of(Exit::input, [&] { (void)read_kept_prompts(scratch.folder().string()); });
  };
  EXPECT_NE(
      error(R"({"prompts_written": "loud"})").find("prompts_written must be one of plain, alpaca, chat"),
      std::string::npos);
  EXPECT_NE(error("{}").find("has no prompts_written"), std::string::npos);
  EXPECT_NE(
      error(R"({"prompts_written": "chat", "chat_template": "/etc/x.jinja"})").find("chat_template must be"),
      std::string::npos);
}

}  // namespace
}  // namespace ft::test
