// Every kind of tokenizer against Hugging Face's library on 10,000 random strings each, by digests; see
// tokenizers/make.py, whose generator of strings is repeated here.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/tokenizers/tokenizer.h"
#include "engine/files/hash.h"
#include "engine/files/json.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using Ids = Tokenizer::Ids;

const std::string kFolder = source_path("tests/data/tokenizers/");

// The generator SplitMix64.
class Numbers {
 public:
  explicit Numbers(std::uint64_t seed) : state_(seed) {}
  std::size_t operator()(std::size_t n) {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return ((z ^ (z >> 31)) >> 33) % n;
  }

 private:
  std::uint64_t state_;
};

void append(std::uint32_t c, std::string& to) {
  const auto put = [&](std::uint32_t byte) { to.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

struct Alphabet {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> ranges;
  std::vector<std::string> glue, words;
};

std::string random_text(Numbers& r, const Alphabet& a, const std::vector<std::string>& tokens) {
  std::string out;
  const std::size_t parts = 1 + r(9);
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t kind = r(16);
    if (kind == 0) {
      out += a.words[r(a.words.size())];
    } else if (kind <= 2) {
      out += tokens[r(tokens.size())];
    } else {
      const auto [low, high] = a.ranges[r(a.ranges.size())];
      const std::size_t letters = 1 + r(7);
      for (std::size_t i = 0; i < letters; ++i)
        append(low + static_cast<std::uint32_t>(r(high - low + 1)), out);
    }
    out += a.glue[r(a.glue.size())];
  }
  return out;
}

std::string line(const Ids& ids) {
  std::string out;
  for (const std::int32_t id : ids) out += (out.empty() ? "" : " ") + std::to_string(id);
  return out + "\n";
}

class RandomStrings : public testing::TestWithParam<const char*> {};

TEST_P(RandomStrings, AgreeWithTheReference) {
  const Json golden = read_json(kFolder + "digests.json");
  const Json& kind = golden.at("kinds").at(GetParam());
  const Alphabet alphabet{golden.at("ranges").get<decltype(Alphabet::ranges)>(),
                          golden.at("glue").get<std::vector<std::string>>(),
                          golden.at("words").get<std::vector<std::string>>()};
  const auto tokens = kind.at("tokens").get<std::vector<std::string>>();
  const auto t = make_tokenizer(kFolder + GetParam());
  ASSERT_EQ(kind.at("encode").size(), 20U);
  Numbers r(kind.at("seed").get<std::uint64_t>());
  for (std::size_t block = 0; block < kind.at("encode").size(); ++block) {
    std::string ids, texts;
    for (int i = 0; i < golden.at("block").get<int>(); ++i) {
      const std::string text = random_text(r, alphabet, tokens);
      const Ids with_specials = t->encode_with_specials(text);
      ids += line(with_specials) + line(t->encode(text));
      Ids noise(1 + r(8));
      for (auto& id : noise) id = static_cast<std::int32_t>(r(static_cast<std::size_t>(t->size())));
      for (const Ids& row : {with_specials, noise})
        texts += t->decode(row, false) + "\n" + t->decode(row, true) + "\n";
    }
    EXPECT_EQ(sha256(ids).substr(0, 16), kind.at("encode")[block].get<std::string>()) << "block " << block;
    EXPECT_EQ(sha256(texts).substr(0, 16), kind.at("decode")[block].get<std::string>()) << "block " << block;
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RandomStrings,
                         testing::Values("gpt2", "llama3", "qwen2", "nfkc", "nfd", "deepseek", "falcon",
                                         "starcoder", "llama2", "mistral", "no-bytes", "gemma", "t5",
                                         "unigram-bytes", "t5-model", "llama-model", "llama-model-legacy"),
                         [](const auto& kind) {
                           std::string name = kind.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace ft
