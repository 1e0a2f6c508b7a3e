// Command lines that were pasted from web pages.
#include "engine/core/typography.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

using Words = std::vector<std::string>;

TEST(Typography, IsFoundAndNamed) {
  EXPECT_FALSE(find_typography("--config run.json \"a\" 'b' \u00e9 \u4e2d"));
  const auto quote = find_typography("a\u201cb\u201d");
  ASSERT_TRUE(quote);
  EXPECT_EQ(quote->at, 1);
  EXPECT_EQ(quote->bytes, 3);
  EXPECT_EQ(quote->plain, '"');
  EXPECT_STREQ(quote->code, "U+201C");
  EXPECT_STREQ(quote->kind(), "quote");
  EXPECT_STREQ(find_typography("a\u201cb\u201d", 2)->code, "U+201D");
  EXPECT_STREQ(find_typography("\u2013n")->kind(), "dash");
  EXPECT_STREQ(find_typography("a\u00a0b")->kind(), "space");
  EXPECT_FALSE(find_typography("\xe2\x80"));  // cut off
}

TEST(Typography, WordsAreMadePlain) {
  EXPECT_EQ(plain_words({"\u2013deepspeed", "\u201cds.json\u201d"}), (Words{"--deepspeed", "ds.json"}));
  EXPECT_EQ(plain_words({"\u2013n", "\u2014num_gpus=2", "\u2013\u2013fp16", "\u2014-bf16"}),
            (Words{"-n", "--num_gpus=2", "--fp16", "--bf16"}));
  EXPECT_EQ(plain_words({"a=\u22121", "\u22120.5", "t5\u2011small"}), (Words{"a=-1", "-0.5", "t5-small"}));
  EXPECT_EQ(plain_words({"--source_prefix", "\u201ctranslate", "English:", "\u201d", "--x"}),
            (Words{"--source_prefix", "translate English: ", "--x"}));
  EXPECT_EQ(plain_words({"sweep.grid={\u201ca\u201d: [0]}"}), (Words{"sweep.grid={\"a\": [0]}"}));
  EXPECT_EQ(plain_words({"don\u2019t", "\u2018x\u2019"}), (Words{"don't", "x"}));
  EXPECT_EQ(plain_words({"\u201cnever", "closed"}), (Words{"never", "closed"}));
  EXPECT_EQ(plain_words({"a\u00a0b"}), (Words{"a b"}));
  EXPECT_EQ(plain_words({"", "--", "-", "x"}), (Words{"", "--", "-", "x"}));
}

TEST(Typography, LinesForAShell) {
  EXPECT_EQ(shell_line({"ft", "train", "a.b=1e-4", "--x"}), "ft train a.b=1e-4 --x");
  EXPECT_EQ(shell_line({"a b", "it's", "$x", ""}), "'a b' 'it'\\''s' '$x' ''");
}

}  // namespace
}  // namespace ft
