// Tokens that a run adds: their ids, and the same ids in the files that a run writes.
#include "data/tokenizers/new_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "data/tokenizers/tokenizer.h"
#include "tests/data/scratch.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using test::error_of;
using test::Scratch;

class NewTokens : public testing::TestWithParam<std::string> {};

TEST_P(NewTokens, AreWrittenToTheFiles) {
  const Scratch scratch;
  std::filesystem::copy(source_path("tests/data/" + GetParam()), scratch.folder(),
                        std::filesystem::copy_options::recursive);
  const auto old = make_tokenizer(scratch.folder());
  const std::string known = old->token(static_cast<std::int32_t>(old->size() - 1));
  DataConfig config;
  config.new_tokens = {"tungsten", known};
  config.new_special_tokens = {"<|tool|>", "tungsten"};
  const auto more = new_tokens(config);
  const auto grown = make_tokenizer(scratch.folder(), more);
  const auto next = static_cast<std::int32_t>(old->size());
  EXPECT_EQ(grown->size(), next + 2);
  EXPECT_EQ(grown->id("tungsten"), next);
  EXPECT_EQ(grown->id("<|tool|>"), next + 1);
  EXPECT_EQ(grown->id(known), next - 1);
  EXPECT_TRUE(grown->is_special(next + 1));
  const std::string text = "of tungsten<|tool|> " + known + "tungstens";
  const Tokenizer::Ids ids = grown->encode(text);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), next), 2);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), next + 1), 1);

  write_new_tokens(scratch.folder(), more);
  const auto written = make_tokenizer(scratch.folder());
  EXPECT_EQ(written->size(), grown->size());
  for (std::int32_t id = next - 1; id < next + 2; ++id) {
    EXPECT_EQ(written->token(id), grown->token(id));
    EXPECT_EQ(written->is_special(id), grown->is_special(id)) << id;
  }
  EXPECT_EQ(written->encode(text), ids);
  EXPECT_EQ(written->decode(ids, true), grown->decode(ids, true));
  write_new_tokens(scratch.folder(), more);  // tokens that exist are not added again
  EXPECT_EQ(make_tokenizer(scratch.folder())->encode(text), ids);
}
INSTANTIATE_TEST_SUITE_P(Tokenizers, NewTokens,
                         testing::Values("tokenizers/qwen2", "tokenizers/gpt2", "tokenizers/llama3",
                                         "tokenizers/gemma", "tokenizers/t5", "tokenizers/llama-model",
                                         "tokenizers/t5-model", "tiny_tokenizer"),
                         [](const auto& given) {
                           std::string name = given.param;
                           for (char& c : name)
                             if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
                           return name;
                         });

TEST(NewTokensOf, Settings) {
  DataConfig config;
  EXPECT_TRUE(new_tokens(config).empty());
  config.new_special_tokens = {"a", ""};
  EXPECT_EQ(error_of(Exit::config, [&] { new_tokens(config); }),
            "data.new_special_tokens: has an empty token");
}

}  // namespace
}  // namespace ft
