#include "engine/generate/beam_search.h"

#include <algorithm>
#include <cmath>

namespace ft {
namespace {

constexpr float kNever = -1e9f;  // the score that transformers gives to branches that do not count

// x = x - log(sum of exp(x)), in place.
void log_softmax(std::span<float> x) {
  const float top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const float v : x) sum += std::exp(static_cast<double>(v - top));
  const auto logarithm = static_cast<float>(std::log(sum));
  for (float& v : x) v = v - top - logarithm;
}

// Returns the `count` elements with the highest scores, best first. Of equal scores the earlier is better.
template <class T, class Score>
std::vector<T> best_of(std::vector<T> all, std::size_t count, const Score& score) {
  std::stable_sort(all.begin(), all.end(), [&](const T& a, const T& b) { return score(a) > score(b); });
  all.resize(std::min(count, all.size()));
  return all;
}

}  // namespace

BeamSearch::BeamSearch(const TokenChooser& chooser, const Prompt& prompt, OnToken on_token)
    : chooser_(chooser),
      on_token_(std::move(on_token)),
      beams_(static_cast<std::size_t>(chooser.config().num_beams)),
      prompt_(prompt.ids.size()),
      most_(prompt_ + static_cast<std::size_t>(prompt.max_new_tokens)),
      branches_{{prompt.ids}},
      sums_{0},
      ended_(beams_, {kNever, false, {}}) {}

double BeamSearch::divisor(std::size_t length) const {
  return std::pow(static_cast<double>(length), chooser_.config().length_penalty);
}

bool BeamSearch::all_ended() const {
  return std::all_of(ended_.begin(), ended_.end(), [](const Ended& e) { return e.real; });
}

// Returns so many candidates that `beams_` remain even if every branch could end with every end token.
std::vector<BeamSearch::Candidate> BeamSearch::best_candidates(std::span<float> scores) const {
  const std::size_t V = scores.size() / branches_.size();
  const std::size_t count = std::max<std::size_t>(2, 1 + chooser_.end_tokens().size()) * beams_;
  const auto better = [](const Candidate& a, const Candidate& b) { return a.score > b.score; };
  std::vector<Candidate> kept;  // a heap with the worst on top
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    const std::span<float> row = scores.subspan(i * V, V);
    chooser_.require_numbers(row);
    log_softmax(row);
    chooser_.process(row, {branches_[i].ids, prompt_, most_});
    for (std::size_t token = 0; token < V; ++token) {
      const float score = row[token] + sums_[i];
      if (kept.size() == count && score <= kept.front().score) continue;
      if (kept.size() == count) {
        std::pop_heap(kept.begin(), kept.end(), better);
        kept.pop_back();
      }
      kept.push_back({score, i, static_cast<std::int32_t>(token), false});
      std::push_heap(kept.begin(), kept.end(), better);
    }
  }
  const bool full = branches_[0].ids.size() + 1 >= most_;
  for (Candidate& c : kept) c.ends = full || chooser_.ends(c.token);
  std::sort(kept.begin(), kept.end(), [](const Candidate& a, const Candidate& b) {
    if (a.score != b.score) return a.score > b.score;
    return a.parent != b.parent ? a.parent < b.parent : a.token < b.token;
  });
  return kept;
}

// Candidates among the best `beams_` that end compete with the answers that ended before.
void BeamSearch::finish(const std::vector<Candidate>& candidates) {
  const std::size_t length = branches_[0].ids.size() + 1 - prompt_;
  const auto penalty = static_cast<float>(divisor(length));
  for (std::size_t i = 0; i < std::min(beams_, candidates.size()); ++i) {
    const Candidate& c = candidates[i];
    if (!c.ends) continue;
    Ended e{c.score / penalty, true, branches_[c.parent].ids};
    if (!chooser_.ends(c.token)) e.ids.push_back(c.token);
    ended_.push_back(std::move(e));
  }
  ended_ = best_of(std::move(ended_), beams_, [](const Ended& e) { return e.score; });
}

void BeamSearch::go_on(std::vector<Candidate> candidates) {
  const auto score = [](const Candidate& c) { return c.ends ? c.score + kNever : c.score; };
  candidates = best_of(std::move(candidates), beams_, score);
  std::vector<Branch> next;
  sums_.clear();
  for (const Candidate& c : candidates) {
    next.push_back({branches_[c.parent].ids, c.parent});
    next.back().ids.push_back(c.token);
    sums_.push_back(score(c));
  }
  branches_ = std::move(next);
}

bool BeamSearch::could_improve() const {
  const bool patient =
      chooser_.config().early_stopping == EarlyStopping::never && chooser_.config().length_penalty > 0;
  const std::size_t length = (patient ? most_ : branches_[0].ids.size()) - prompt_;
  const float worst = all_ended() ? ended_.back().score : kNever;
  return sums_[0] / static_cast<float>(divisor(length)) > worst;
}

bool BeamSearch::step(std::span<float> scores) {
  std::vector<Candidate> candidates = best_candidates(scores);
  const bool stuck =
      std::all_of(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.ends; });
  finish(candidates);
  go_on(std::move(candidates));
  const bool enough = all_ended() && chooser_.config().early_stopping == EarlyStopping::at_enough;
  if (!stuck && !enough && could_improve()) return true;
  const std::vector<std::int32_t>& best = ended_[0].real ? ended_[0].ids : branches_[0].ids;
  for (std::size_t i = prompt_; i < best.size() && on_token_(best[i]); ++i) continue;
  return false;
}

}  // namespace ft
