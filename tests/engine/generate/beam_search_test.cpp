// Beam search over a language of four words, small enough to try every answer.
#include "engine/generate/beam_search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "engine/core/error.h"

namespace ft {
namespace {

using Ids = std::vector<std::int32_t>;
constexpr std::size_t kWords = 4;  // the last one ends an answer

// Returns the scores of the next word: an arbitrary function of the last token and the length.
std::vector<float> scores_after(const Ids& ids) {
  std::vector<float> scores;
  for (std::size_t word = 0; word < kWords; ++word)
    scores.push_back(static_cast<float>(std::sin(7.0 * static_cast<double>(word) + 3.0 * ids.back() +
                                                 1.7 * static_cast<double>(ids.size()))));
  return scores;
}

std::vector<double> log_probabilities_after(const Ids& ids) {
  const std::vector<float> scores = scores_after(ids);
  double sum = 0;
  for (const float s : scores) sum += std::exp(s);
  std::vector<double> out;
  for (const float s : scores) out.push_back(s - std::log(sum));
  return out;
}

Ids searched(const GenerationConfig& config, std::int64_t most, const Ids& ends = {3}) {
  const TokenChooser chooser(config, ends);
  Ids answer;
  BeamSearch search(chooser, {{0}, most}, [&](std::int32_t token) { return answer.push_back(token), true; });
  for (int step = 0; step < 100; ++step) {
    std::vector<float> scores;
    for (const Branch& b : search.branches()) {
      const std::vector<float> own = scores_after(b.ids);
      scores.insert(scores.end(), own.begin(), own.end());
    }
    if (!search.step(scores)) return answer;
  }
  ADD_FAILURE() << "no end";
  return answer;
}

// Collects all answers by score: the sum of log probabilities over length^penalty, counting the end token.
void look(const Ids& ids, double sum, std::size_t most, double penalty, std::map<double, Ids>& all) {
  const std::vector<double> next = log_probabilities_after(ids);
  for (std::int32_t word = 0; word < static_cast<std::int32_t>(kWords); ++word) {
    Ids longer = ids;
    longer.push_back(word);
    const double total = sum + next[static_cast<std::size_t>(word)];
    if (word == 3 || longer.size() > most) {
      const double score = total / std::pow(static_cast<double>(longer.size() - 1), penalty);
      all[score] = {longer.begin() + 1, longer.end() - (word == 3 ? 1 : 0)};
    } else {
      look(longer, total, most, penalty, all);
    }
  }
}

TEST(BeamSearch, AsManyBeamsAsThereAreAnswersFindTheBest) {
  for (const double penalty : {0.0, 1.0, 2.0, -1.0})
    for (const std::int64_t most : {1, 2, 4}) {
      std::map<double, Ids> all;
      look({0}, 0, static_cast<std::size_t>(most), penalty, all);
      GenerationConfig config;
      config.num_beams = 300;
      config.length_penalty = penalty;
      config.early_stopping = EarlyStopping::never;
      EXPECT_EQ(searched(config, most), all.rbegin()->second) << penalty << " " << most;
    }
}

TEST(BeamSearch, OneTokenAtMost) {
  GenerationConfig config;
  config.num_beams = 2;
  EXPECT_EQ(searched(config, 1).size(), 1u);
  config.forced_eos_token_id = 3;
  EXPECT_TRUE(searched(config, 1).empty());
}

TEST(BeamSearch, WithoutAnEndTokenAnswersAreCut) {
  GenerationConfig config;
  config.num_beams = 3;
  for (const auto& [early, word] : words(EarlyStopping{})) {
    SCOPED_TRACE(word);
    config.early_stopping = early;
    EXPECT_EQ(searched(config, 9, {}).size(), 9u);
  }
}

TEST(BeamSearch, NanIsReported) {
  const TokenChooser chooser({.num_beams = 2}, {3});
  BeamSearch search(chooser, {{0}, 4}, [](std::int32_t) { return true; });
  std::vector<float> scores{0, NAN, 1, 2};
  EXPECT_THROW(search.step(scores), UserError);
}

}  // namespace
}  // namespace ft
