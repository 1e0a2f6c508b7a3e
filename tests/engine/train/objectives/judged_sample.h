// Answers with random values, for tests of judges.
#pragma once
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"

namespace ft {
namespace {

// Three pairs or six labelled answers of different lengths; prompts of chosen answers are targets too.
struct Sample {
  Compared rows;
  std::vector<double> values, reference, old;
  std::vector<float> statistics;

  explicit Sample(const ObjectiveConfig& c) {
    const bool given = c.type->rows == ObjectiveRows::rollouts, pairs = c.type->rows == ObjectiveRows::pairs,
               scores = c.type->scores;
    std::mt19937 random(7);
    std::uniform_real_distribution<double> some(0.2, 3);
    rows.first_target = {0};
    for (int s = 0; s < 6; ++s) {
      const int prompt = s % 2 == 0 && !scores && !given ? 2 : 0, answer = scores ? 1 : 1 + (s * 5) % 4;
      rows.first_answer.push_back(rows.first_target.back() + prompt);
      rows.first_target.push_back(rows.first_answer.back() + answer);
      reference.push_back(-some(random) * answer);
    }
    for (int r = 0; r < (pairs ? 3 : 6); ++r) rows.value.push_back(pairs ? 0.3f * float(r) : float(r % 2));
    for (int t = 0; t < rows.first_target.back(); ++t) values.push_back(some(random) - (scores ? 1.5 : 0));
    for (int t = 0; t < 4 * rows.first_target.back(); ++t) statistics.push_back(float(-some(random)));
    if (!given) return;
    rows.value = {1, -0.5f, 0.8f, -1, 0.3f, -0.2f};
    reference.clear();
    for (const double v : values) {
      old.push_back(-v + 0.2 * (some(random) - 1.5));
      reference.push_back(-v + 0.3 * (some(random) - 1.5));
    }
  }
  Answers answers() const { return {rows, values, statistics, reference, 0.3, old}; }
};

std::unique_ptr<Judge> make(const ObjectiveConfig& c) { return c.type->judge(c); }

ObjectiveConfig settings(const ObjectiveKind& kind, const std::vector<std::string>& losses = {}) {
  ObjectiveConfig c(&kind);
  c.loss_type = losses;
  return c;
}

}  // namespace
}  // namespace ft
