// Processors of scores with results by hand, and sampling against transformers.
#include "engine/generate/choose.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/files/json.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using Ids = std::vector<std::int32_t>;
using Scores = std::vector<float>;

std::int32_t greedy(const GenerationConfig& config, Scores scores, const Ids& ids, std::size_t prompt) {
  return TokenChooser(config, {3}).choose(scores, {ids, prompt, ids.size() + 9}, {});
}

TEST(Choose, TheFirstOfTheLikeliest) {
  EXPECT_EQ(greedy({}, {1, 4, 4, -2}, {0}, 1), 1);
  EXPECT_EQ(greedy({}, {-INFINITY, -INFINITY}, {0}, 1), 0);
}

TEST(Choose, EarlierTokensArePenalizedOnce) {
  GenerationConfig c;
  c.repetition_penalty = 2;
  EXPECT_EQ(greedy(c, {4, 3, 1}, {0}, 1), 1);       // scores become 2 3 1
  EXPECT_EQ(greedy(c, {4, 1.5, 1}, {0, 0}, 2), 0);  // the score becomes 2, not 1
  EXPECT_EQ(greedy(c, {-1, -1.5, -9}, {0}, 1), 1);  // the score becomes -2
}

TEST(Choose, NoRunTwice) {
  GenerationConfig c;
  c.no_repeat_ngram_size = 2;
  EXPECT_EQ(greedy(c, {9, 8, 7, 6}, {2, 0, 1, 2}, 4), 1);  // 2 0 has occurred
  EXPECT_EQ(greedy(c, {9, 8, 7, 6}, {2}, 1), 0);
  c.no_repeat_ngram_size = 1;
  EXPECT_EQ(greedy(c, {9, 8, 7, 6}, {0, 1}, 2), 2);
  c.no_repeat_ngram_size = 3;
  EXPECT_EQ(greedy(c, {9, 8, 7, 6}, {1, 2, 0, 1, 2}, 5), 1);
  EXPECT_EQ(greedy(c, {9, 8, 7, 6}, {1, 2, 0, 2, 1}, 5), 0);
}

TEST(Choose, NoEndBeforeTheLeastLength) {
  GenerationConfig c;
  c.min_new_tokens = 2;
  EXPECT_EQ(greedy(c, {1, 2, 3, 9}, {0, 1}, 1), 2);
  EXPECT_EQ(greedy(c, {1, 2, 3, 9}, {0, 1, 1}, 1), 3);
  EXPECT_TRUE(TokenChooser(c, {3}).ends(3));
  EXPECT_FALSE(TokenChooser(c, {3}).ends(2));
}

TEST(Choose, NanIsReported) {
  try {
    greedy({}, {1, NAN}, {0}, 1);
    ADD_FAILURE();
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::numeric);
    EXPECT_STREQ(e.what(), "the model's logits are NaN: are its weights damaged, or not trained?");
  }
}

// tests/golden/generation.json: the tokens that transformers' warpers leave, and their probabilities.
TEST(Choose, SamplesWhatTransformersWould) {
  constexpr int kDraws = 20'000;
  const Json golden = read_json(source_path("tests/golden/generation.json"));
  for (const Json& g : golden["kept"]) {
    const Json& o = g["options"];
    GenerationConfig c;
    c.do_sample = true;
    c.temperature = o.value("temperature", 1.0);
    c.top_k = o.value("top_k", 50);
    c.top_p = o.value("top_p", 1.0);
    if (o.contains("min_p")) c.min_p = o["min_p"].get<double>();
    const TokenChooser chooser(c, {});
    std::map<std::int32_t, int> drawn;
    for (int i = 0; i < kDraws; ++i) {
      auto scores = g["scores"].get<Scores>();
      const Ids ids{1, 2};
      ++drawn[chooser.choose(scores, {ids, 1, 9}, Random{7}.with(static_cast<std::uint64_t>(i)))];
    }
    const Ids kept = g["kept"].get<Ids>();
    for (const auto& [token, count] : drawn)
      EXPECT_NE(std::find(kept.begin(), kept.end(), token), kept.end()) << o << " drew " << token;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const double p = g["probabilities"][i], error = std::sqrt(p * (1 - p) / kDraws);
      EXPECT_NEAR(drawn[kept[i]] / double(kDraws), p, 4 * error + 1e-4) << o << " token " << kept[i];
    }
  }
}

}  // namespace
}  // namespace ft
