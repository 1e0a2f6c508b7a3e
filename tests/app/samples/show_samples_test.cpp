// ft data show's text: trained tokens can be distinguished without colours.
#include "app/samples/show_samples.h"
#include "tests/support/source.h"

#include <gtest/gtest.h>

#include <memory>

namespace ft {
namespace {

class ShowSamples : public testing::Test {
 protected:
  ShowSamples() {
    auto store = std::make_shared<SampleStore>();
    store->start_file("train.jsonl");
    store->add({{1, 301, 13, 231, 192, 163, 7, 301, 2}, {-100, -100, -100, -100, -100, -100, -100, 301, 2}},
               5);
    store->add({{5, 6}, {-100, 9}}, 6);
    data = Dataset(store, {0, 1});
  }
  std::string shown(const Tokenizer* tokenizer, std::int64_t limit, bool colour = false) {
    std::string text;
    Screen screen({.colour = colour, .write = [&](const std::string& t) { text += t; }});
    show_samples(data, tokenizer, limit, screen);
    return text;
  }
  Dataset data;
};

TEST_F(ShowSamples, Text) {
  const auto t = make_tokenizer(source_path("tests/data/tiny_tokenizer"));
  EXPECT_EQ(shown(t.get(), 1),
            "sample 1 of 2, train.jsonl:5, 9 tokens, 2 trained\n"
            "  <s>| Ada|\\n\n"
            "  \xE4\xBD\xA0|<0x04>\n"
            "+  Ada|</s>\n"
            "\n"
            "2 samples, 11 tokens (27 % trained), longest 9; 1 not shown: --limit\n");
  EXPECT_NE(shown(t.get(), 1, true).find("\x1b[32m Ada\x1b[0m"), std::string::npos);
}

TEST_F(ShowSamples, ByteLevelTokensAsTheyRead) {
  const auto t = make_tokenizer(source_path("tests/data/tokenizers/qwen2"));
  auto store = std::make_shared<SampleStore>();
  store->start_file("train.jsonl");
  const auto ids = t->encode("Ada has \xF0\x9F\x98\x80<|endoftext|>");
  store->add({ids, ids}, 1);
  data = Dataset(store, {0});
  EXPECT_NE(shown(t.get(), 1).find("+ Ada| has| |\xF0\x9F\x98\x80|<|endoftext|>\n"), std::string::npos)
      << shown(t.get(), 1);
}

TEST_F(ShowSamples, IdsWithoutATokenizer) {
  EXPECT_EQ(shown(nullptr, 5).substr(shown(nullptr, 5).find("sample 2")),
            "sample 2 of 2, train.jsonl:6, 2 tokens, 1 trained\n"
            "  5\n"
            "+ 6\n"
            "  token 1: the label is 9, the token 6\n"
            "\n"
            "2 samples, 11 tokens (27 % trained), longest 9\n");
}

TEST_F(ShowSamples, Json) {
  std::string text;
  Screen screen({.write = [&](const std::string& t) { text += t; }});
  show_samples_json(data, 5, screen);
  EXPECT_EQ(text.substr(text.find('\n') + 1),
            "{\"input_ids\":[5,6],\"labels\":[-100,9],\"source\":\"train.jsonl:6\"}\n");
}

}  // namespace
}  // namespace ft
