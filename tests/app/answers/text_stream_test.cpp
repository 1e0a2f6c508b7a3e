// Text that appears token by token: complete characters only, and no part of a stop string.
#include "app/answers/text_stream.h"
#include "tests/support/source.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ft {
namespace {

class Stream : public testing::Test {
 protected:
  // Returns the text shown after each token, then the text shown at the end.
  std::vector<std::string> show(const std::string& text, std::vector<std::string> stops = {}) {
    TextStream stream(*tokenizer, std::move(stops));
    std::vector<std::string> shown;
    for (const std::int32_t id : tokenizer->encode(text)) {
      shown.push_back(stream.add(id));
      if (stream.stopped()) break;
    }
    shown.push_back(stream.finish());
    joined.clear();
    for (const std::string& part : shown) joined += part;
    EXPECT_EQ(joined, stream.text());
    stopped = stream.stopped();
    return shown;
  }
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
  std::string joined;
  bool stopped = false;
};

TEST_F(Stream, IsTheTextOfAllTokens) {
  for (const std::string text : {"Ada has 12 cats.", "a  b\nc", "", "x", "naïve 李雷 \xF0\x9F\x99\x82 end"}) {
    show(text);
    EXPECT_EQ(joined, tokenizer->decode(tokenizer->encode(text), true));
  }
}

TEST_F(Stream, HalfCharactersWait) {
  const auto parts = show("a\xF0\x9F\x99\x82z");  // four tokens of one byte each
  for (const std::string& part : parts) EXPECT_EQ(part.find("\xEF\xBF\xBD"), std::string::npos) << part;
  EXPECT_NE(std::find(parts.begin(), parts.end(), "\xF0\x9F\x99\x82"), parts.end());
}

TEST_F(Stream, InvalidBytesDoNotStopIt) {
  TextStream stream(*tokenizer, {});
  const std::int32_t half = *tokenizer->id("<0xF0>");
  std::string shown;
  for (int i = 0; i < 9; ++i) shown += stream.add(half);
  EXPECT_GE(shown.size(), 9u);
}

// Models may have more ids than their tokenizers have tokens.
TEST_F(Stream, IdsWithoutATokenAreNoText) {
  TextStream stream(*tokenizer, {});
  const auto beyond = static_cast<std::int32_t>(tokenizer->size()) + 7;
  std::string shown = stream.add(beyond);
  for (const std::int32_t id : tokenizer->encode("a\xF0\x9F\x99\x82z"))
    for (int i = 0; i < 3; ++i) shown += stream.add(i == 0 ? id : beyond);
  EXPECT_EQ(shown + stream.finish(), "a\xF0\x9F\x99\x82z");
}

TEST_F(Stream, CompleteTextIsThatOfAllTokens) {
  TextStream stream(*tokenizer, {});
  std::vector<std::int32_t> ids;
  for (const char* name : {"<0xE4>", "<0xB8>", "<0xAD>", "<0xE4>", "<0xB8>", "<0xE4>", "<0xB8>", "<0xAD>"})
    ids.push_back(*tokenizer->id(name));
  for (const std::int32_t id : ids) stream.add(id);
  stream.finish();
  EXPECT_EQ(stream.whole(), tokenizer->decode(ids, true));
}

TEST_F(Stream, ContinuesEarlierText) {
  const auto before = tokenizer->encode("Ada has 12 cats."),
             all = tokenizer->encode("Ada has 12 cats. Bob has.");
  TextStream stream(*tokenizer, {"has"}, before);
  std::string shown;
  for (std::size_t i = before.size(); i < all.size(); ++i) shown += stream.add(all[i]);
  EXPECT_EQ(shown, " Bob ");
  EXPECT_TRUE(stream.stopped());
}

TEST_F(Stream, EndsBeforeAStopString) {
  show("Ada has 12 cats. Bob has one.", {"Bob", "cats"});
  EXPECT_EQ(joined, "Ada has 12 ");
  EXPECT_TRUE(stopped);
  show("Ada has 12 cats.", {"dogs"});
  EXPECT_EQ(joined, "Ada has 12 cats.");
  EXPECT_FALSE(stopped);
}

TEST_F(Stream, BeginningsOfStopStringsAreHeldBack) {
  TextStream stream(*tokenizer, {"xyz!"});
  std::string shown;
  for (const std::int32_t id : tokenizer->encode("a xy")) shown += stream.add(id);
  EXPECT_EQ(shown, "a ");
  EXPECT_EQ(stream.finish(), "xy");
}

}  // namespace
}  // namespace ft
