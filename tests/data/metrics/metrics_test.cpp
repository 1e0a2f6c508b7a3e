// BLEU, chrF and ROUGE against sacreBLEU and rouge-score: tests/golden/metrics.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "data/metrics/lcs.h"
#include "data/metrics/rouge.h"
#include "data/metrics/stemmer.h"
#include "data/metrics/words.h"
#include "tests/support/source.h"

namespace ft::metrics {
namespace {

using Texts = std::vector<std::string>;

TEST(Metrics, AreThoseOfSacrebleuAndRougeScore) {
  const auto golden = nlohmann::json::parse(std::ifstream(source_path("tests/golden/metrics.json")));
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
    EXPECT_NEAR(rouge.rougeLsum, want["rougeL"], 1e-12);  // equal, because texts are single lines
    const Rouge stemmed = mean_rouge(h, r, true);
    EXPECT_NEAR(stemmed.rouge1, want["stemmed"]["rouge1"], 1e-12);
    EXPECT_NEAR(stemmed.rougeL, want["stemmed"]["rougeL"], 1e-12);
  }
}

TEST(Metrics, TextsOfSeveralLines) {
  const auto golden = nlohmann::json::parse(std::ifstream(source_path("tests/golden/metrics.json")));
  ASSERT_GT(golden["texts"].size(), 50u);
  for (const auto& text : golden["texts"]) {
    const Texts h{text["hypothesis"]}, r{text["reference"]};
    EXPECT_NEAR(mean_rouge(h, r).rougeLsum, text["rougeLsum"], 1e-12) << h[0] << "\n--\n" << r[0];
    EXPECT_NEAR(mean_rouge(h, r).rougeL, text["rougeL"], 1e-12);
  }
}

TEST(Metrics, StemsAreThoseOfNltk) {
  const auto golden = nlohmann::json::parse(std::ifstream(source_path("tests/golden/metrics.json")));
  ASSERT_GT(golden["stems"].size(), 1000u);
  for (const auto& [word, stem] : golden["stems"].items())
    EXPECT_EQ(porter_stem(word), stem.get<std::string>()) << word;
}

// Compares with the full table of lengths, read from its end.
TEST(Metrics, LongestCommonSubsequences) {
  std::uint64_t state = 1;
  const auto random = [&](std::uint64_t n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
  };
  for (int round = 0; round < 300; ++round) {
    const std::uint64_t kinds = 1 + random(9);
    Symbols rows(random(150)), columns(random(300));
    for (Symbol& s : rows) s = static_cast<Symbol>(random(kinds));
    for (Symbol& s : columns) s = static_cast<Symbol>(random(kinds + 1));
    std::vector t(rows.size() + 1, std::vector<std::int64_t>(columns.size() + 1));
    for (std::size_t i = 1; i <= rows.size(); ++i)
      for (std::size_t j = 1; j <= columns.size(); ++j)
        t[i][j] = rows[i - 1] == columns[j - 1] ? t[i - 1][j - 1] + 1 : std::max(t[i - 1][j], t[i][j - 1]);
    std::vector<std::size_t> want;
    for (std::size_t i = rows.size(), j = columns.size(); i > 0 && j > 0;) {
      if (rows[i - 1] == columns[j - 1]) {
        want.insert(want.begin(), --i);
        --j;
      } else {
        t[i][j - 1] > t[i - 1][j] ? --j : --i;
      }
    }
    EXPECT_EQ(lcs_length(rows, columns), t[rows.size()][columns.size()]);
    EXPECT_EQ(lcs_rows(rows, columns), want) << round;
  }
}

TEST(Metrics, AreZeroForEmptyTexts) {
  EXPECT_EQ(corpus_bleu({}, {}).score, 0);
  EXPECT_EQ(corpus_chrf({}, {}), 0);
  EXPECT_EQ(mean_rouge({}, {}).rougeL, 0);
}

TEST(Metrics, InvalidBytesAreCharacters) {
  const Texts odd{"a \xff b\xc3", "\x80"};
  EXPECT_EQ(corpus_bleu(odd, odd).precisions[0], 100);
  EXPECT_EQ(corpus_chrf(odd, odd), 100);
  EXPECT_EQ(split("a \xff b\xc3").size(), 3u);
}

}  // namespace
}  // namespace ft::metrics
