#include "data/preference/own_answers.h"

#include <algorithm>

#include "engine/core/divide.h"
#include "engine/core/random.h"
#include "engine/core/require.h"

namespace ft {
namespace {

// A sequence's tokens up to its first target; none: it has no target.
struct Beginning {
  std::span<const std::int32_t> sequence;
  std::int64_t prompt = 0;  // tokens before the first target; 0: there is none
};

std::vector<Beginning> beginnings(const Batch& b) {
  std::vector<Beginning> all;
  auto target = b.target_rows.begin();
  for (std::size_t s = 0; s + 1 < b.starts.size(); ++s) {
    const std::int32_t begin = b.starts[s], end = b.starts[s + 1];
    Beginning one{std::span(b.input_ids)
                      .subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))};
    if (target != b.target_rows.end() && *target < end) one.prompt = *target + 1 - begin;
    target = std::lower_bound(target, b.target_rows.end(), end);
    all.push_back(one);
  }
  return all;
}

void add(Batch& to, std::span<const std::int32_t> prompt, std::span<const std::int32_t> answer) {
  const auto begin = static_cast<std::int32_t>(to.tokens()), first = static_cast<std::int32_t>(prompt.size());
  for (const auto part : {prompt, answer}) to.input_ids.insert(to.input_ids.end(), part.begin(), part.end());
  const auto length = static_cast<std::int32_t>(to.tokens()) - begin;
  for (std::int32_t t = 0; t < length; ++t) to.positions.push_back(t);
  for (std::int32_t t = first; t < length; ++t) {
    to.target_rows.push_back(begin + t - 1);
    to.targets.push_back(answer[static_cast<std::size_t>(t - first)]);
  }
  to.starts.push_back(begin + length);
}

}  // namespace

OwnAnswers::OwnAnswers(const BatchSource& from, const OwnAnswersOptions& options)
    : from_(from), options_(options) {
  for (std::int64_t i = 0; i < from.batches_per_epoch(); ++i) {
    const Batch b = from.batch(0, i);
    for (const Beginning& one : beginnings(b))
      if (one.prompt > 0)
        longest_prompt_ = std::max(longest_prompt_, one.prompt);
      else
        longest_unanswered_ = std::max(longest_unanswered_, std::ssize(one.sequence));
  }
}

// As in TRL, the policy answers if the number drawn is at most the share.
Author OwnAnswers::author(std::int64_t epoch, std::int64_t i) const {
  const Random random = Random{options_.seed}
                            .with("author")
                            .with(static_cast<std::uint64_t>(epoch))
                            .with(static_cast<std::uint64_t>(i));
  const auto drawn = static_cast<double>(to_uniform(random.at(0)[0]));
  return drawn <= options_.share ? Author::policy : options_.rest;
}

OwnAnswers::Place OwnAnswers::place_of(std::int64_t step) const {
  const std::int64_t batches = batches_per_epoch(), steps = ceil_div(batches, options_.step),
                     begin = step % steps * options_.step;
  return {step / steps, begin, std::min(begin + options_.step, batches)};
}

std::vector<OwnPrompt> OwnAnswers::questions(std::int64_t step, Author whom) const {
  std::vector<OwnPrompt> all;
  const auto [epoch, begin, end] = place_of(step);
  for (std::int64_t i = begin; i < end; ++i) {
    if (author(epoch, i) != whom) continue;
    const Batch b = from_.batch(epoch, i);
    std::int64_t number = (epoch * batches_per_epoch() + i) * options_.rows;
    for (const Beginning& one : beginnings(b)) {
      if (one.prompt > 0) {
        const auto prompt = one.sequence.first(static_cast<std::size_t>(one.prompt));
        all.push_back({.prompt = {prompt.begin(), prompt.end()},
                       .most = std::min(options_.answer, options_.longest - one.prompt),
                       .number = number});
      }
      ++number;
    }
  }
  return all;
}

void OwnAnswers::put(std::int64_t step, const Tokens& policys, const Tokens& teachers) {
  const auto [epoch, begin, end] = place_of(step);
  epoch_ = epoch;
  given_.clear();
  auto policy = policys.begin(), teacher = teachers.begin();
  for (std::int64_t i = begin; i < end; ++i) {
    const Author by = author(epoch, i);
    if (by == Author::data) continue;
    auto& next = by == Author::policy ? policy : teacher;
    const Batch b = from_.batch(epoch, i);
    Batch& own = given_[i];
    own.starts = {0};
    for (const Beginning& one : beginnings(b))
      if (one.prompt > 0)
        add(own, one.sequence.first(static_cast<std::size_t>(one.prompt)), *next++);
      else
        add(own, one.sequence, {});
  }
  require(policy == policys.end() && teacher == teachers.end(), "answers to other questions");
}

const Batch& OwnAnswers::given(std::int64_t epoch, std::int64_t i) const {
  const auto found = given_.find(i);
  require(epoch == epoch_ && found != given_.end(), "answers that were not given");
  return found->second;
}

Batch OwnAnswers::batch(std::int64_t epoch, std::int64_t i) const {
  return author(epoch, i) == Author::data ? from_.batch(epoch, i) : given(epoch, i);
}

BatchShape OwnAnswers::shape(std::int64_t epoch, std::int64_t i) const {
  return author(epoch, i) == Author::data ? from_.shape(epoch, i) : shape_of(given(epoch, i));
}

BatchShape OwnAnswers::largest() const {
  const std::int64_t answered = std::min(options_.longest, longest_prompt_ + options_.answer),
                     length = std::max(longest_unanswered_, answered);
  return {.tokens = options_.rows * length,
          .targets = options_.rows * std::min(options_.answer, options_.longest - 1),
          .sequences = options_.rows,
          .longest = length};
}

}  // namespace ft
