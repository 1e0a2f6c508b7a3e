// BLEU, chrF and ROUGE against sacreBLEU and rouge-score: tests/golden/metrics.json.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "data/metrics/rouge.h"
#include "data/metrics/words.h"

namespace ft::metrics {
namespace {

using Texts = std::vector<std::string>;

TEST(Metrics, AreThoseOfSacrebleuAndRougeScore) {
  const auto golden = nlohmann::json::parse(std::ifstream(FT_SOURCE_DIR "/tests/golden/metrics.json"));
  Texts hypotheses, references;
  for (const auto& pair : golden["pairs"]) {
    hypotheses.push_back(pair[0]);
    references.push_back(pair[1]);
  }
  ASSERT_EQ(hypotheses.size(), 500u);
  for (const auto& want : golden["corpora"]) {
    const std::size_t from = want["from"], count = want["to"].get<std::size_t>() - from;
    const std::span h = std::span<const std::string>(hypotheses).subspan(from, count);
    const std::span r = std::span<const std::string>(references).subspan(from, count);
    SCOPED_TRACE(from == 0 && count > 1 ? "all" : h[0] + " | " + r[0]);
    const Bleu bleu = corpus_bleu(h, r);
    EXPECT_NEAR(bleu.score, want["bleu"], 1e-9);
    EXPECT_NEAR(bleu.brevity_penalty, want["brevity_penalty"], 1e-12);
    EXPECT_EQ(bleu.hypothesis_tokens, want["tokens"][0]);
    EXPECT_EQ(bleu.reference_tokens, want["tokens"][1]);
    for (std::size_t n = 0; n < 4; ++n) EXPECT_NEAR(bleu.precisions[n], want["precisions"][n], 1e-9);
    EXPECT_NEAR(corpus_chrf(h, r), want["chrf"], 1e-9);
    const Rouge rouge = mean_rouge(h, r);
    EXPECT_NEAR(rouge.rouge1, want["rouge1"], 1e-12);
    EXPECT_NEAR(rouge.rouge2, want["rouge2"], 1e-12);
    EXPECT_NEAR(rouge.rougeL, want["rougeL"], 1e-12);
  }
}

TEST(Metrics, OfNothingAreZero) {
  EXPECT_EQ(corpus_bleu({}, {}).score, 0);
  EXPECT_EQ(corpus_chrf({}, {}), 0);
  EXPECT_EQ(mean_rouge({}, {}).rougeL, 0);
}

TEST(Metrics, BytesThatAreNoTextAreCharacters) {
  const Texts odd{"a \xff b\xc3", "\x80"};
  EXPECT_EQ(corpus_bleu(odd, odd).precisions[0], 100);
  EXPECT_EQ(corpus_chrf(odd, odd), 100);
  EXPECT_EQ(split("a \xff b\xc3").size(), 3u);
}

}  // namespace
}  // namespace ft::metrics
