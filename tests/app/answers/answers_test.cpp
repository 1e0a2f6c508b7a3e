// Finds the question in a conversation's tokens, for output lines that show question and answer.
#include "app/rollouts/answer_test.h"

#include <gtest/gtest.h>

#include <map>

namespace ft {
namespace {

// A tokenizer whose ids are bytes; larger ids are special tokens.
class Bytes final : public Tokenizer {
 public:
  Ids encode(std::string_view text) const override {
    Ids ids;
    while (!text.empty()) {
      const auto special =
          std::find_if(kSpecial.begin(), kSpecial.end(), [&](const auto& s) { return text.starts_with(s); });
      const bool found = special != kSpecial.end();
      ids.push_back(found ? 256 + static_cast<std::int32_t>(special - kSpecial.begin())
                          : static_cast<unsigned char>(text[0]));
      text.remove_prefix(found ? special->size() : 1);
    }
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids, bool skip) const override {
    std::string text;
    for (const std::int32_t id : ids)
      if (!is_special(id) || !skip) text += token(id);
    return text;
  }
  Ids prefix() const override { return {}; }
  Ids suffix() const override { return {}; }
  std::int64_t size() const override { return 256 + std::ssize(kSpecial); }
  std::string token(std::int32_t id) const override {
    return id < 256 ? std::string(1, static_cast<char>(id)) : kSpecial[static_cast<std::size_t>(id - 256)];
  }
  bool is_special(std::int32_t id) const override { return id >= 256; }
  std::optional<std::int32_t> id(std::string_view) const override { return std::nullopt; }
  std::optional<std::int32_t> bos() const override { return 256; }
  std::optional<std::int32_t> eos() const override { return 257; }
  std::optional<std::int32_t> pad() const override { return std::nullopt; }
  std::optional<std::int32_t> unk() const override { return std::nullopt; }

 private:
  const std::vector<std::string> kSpecial{"<s>",        "</s>",       "<|im_start|>", "<|im_end|>", "<turn>",
                                          "<turn_end>", "<|header|>", "<|/header|>",  "<|eot_id|>"};
};

TEST(Answers, TheQuestionIsTheLastTurn) {
  const Bytes tokenizer;
  for (const auto& [prompt, question] : std::map<std::string, std::string>{
           {"In digits: two =", "In digits: two ="},
           {"<s>What is 2+2?", "What is 2+2?"},
           {"<|im_start|>system\nYou are kind.<|im_end|>\n<|im_start|>user\nWhat is 2+2?<|im_end|>\n"
            "<|im_start|>assistant\n",
            "What is 2+2?"},
           {"<s><turn>user\nYou are kind.\n\nWhat is 2+2?<turn_end>\n<turn>model\n",
            "You are kind.\n\nWhat is 2+2?"},
           {"<s><|header|>system<|/header|>\n\nYou are kind.<|eot_id|><|header|>user<|/header|>\n\nWhat is "
            "2+2?<|eot_id|><|header|>assistant<|/header|>\n\n",
            "What is 2+2?"},
           {"<|system|>\nYou are kind.</s>\n<|user|>\nWhat is 2+2?</s>\n<|assistant|>\n", "What is 2+2?"},
           {"<s>", ""}})
    EXPECT_EQ(question_of(tokenizer.encode(prompt), tokenizer), question) << prompt;
}

}  // namespace
}  // namespace ft
