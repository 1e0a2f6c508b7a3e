#include "app/rollouts/respondent.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/rollouts/on_root.h"
#include "app/rollouts/sampling.h"
#include "data/preference/batch.h"
#include "engine/train/objectives/rollouts.h"

namespace ft {
namespace {

using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point start) {
  return std::chrono::duration<double>(Steady::now() - start).count();
}

const char* const kLengths[] = {"completions/mean_length",
                                "completions/min_length",
                                "completions/max_length",
                                "completions/clipped_ratio",
                                "completions/mean_terminated_length",
                                "completions/min_terminated_length",
                                "completions/max_terminated_length"};

}  // namespace

Respondent::Respondent(RespondentParts parts)
    : p_(std::move(parts)), sampling_{p_.shape, {sampling_of(p_.config), {}}, p_.end_tokens} {
  for (const auto& r : p_.rewards) names_.push_back(r->name());
  if (!p_.scorer.empty()) names_.push_back(p_.scorer);
}

RewardedAnswers Respondent::give(const Pass& pass, const GeneratedAnswers& answers, std::int64_t generation) {
  RewardedAnswers given;
  const auto start = Steady::now();
  generate(pass, answers, generation, given);
  generating_ += seconds_since(start);
  const auto answered = Steady::now();
  reward(pass, answers, generation, given);
  rewarding_ += seconds_since(answered);
  return given;
}

std::vector<Prompt> Respondent::prompts(const GeneratedAnswers& answers, std::int64_t generation) {
  const std::vector<std::int64_t> places = answers.places(generation);
  const auto first = static_cast<std::uint64_t>(answers.number(generation, 0));
  std::vector<Prompt> all;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto ids = answers.prompts()[places[i]].input_ids;
    all.push_back(
        {.ids = {ids.begin(), ids.end()}, .max_new_tokens = answers.options().longest, .number = first + i});
  }
  return all;
}

void Respondent::generate(const Pass& pass, const GeneratedAnswers& answers, std::int64_t generation,
                          RewardedAnswers& given) {
  const std::vector<Prompt> own = prompts(answers, generation);
  if (!p_.remote) {
    given.tokens = answers_to(own, pass.context, pass.policy, sampling_, begun_);
    return;
  }
  const GeneratedOptions& options = answers.options();
  const std::int64_t steps = answers.steps(), now = generation * steps;
  SampledAnswers sampled =
      p_.remote->give(pass, own, options.group, options.whole ? std::nullopt : std::optional(now));
  given.tokens = std::move(sampled.tokens);
  given.logps = std::move(sampled.logps);
  if (looks_ahead() && !options.whole)
    p_.remote->ask_ahead(pass, prompts(answers, generation + 1), options.group, now, now + steps);
}

bool Respondent::ended(const std::vector<std::int32_t>& answer) const { return sampling_.ended(answer); }

std::string Respondent::text(std::span<const std::int32_t> ids) const {
  return p_.tokenizer ? p_.tokenizer->decode(ids, true) : "";
}

std::vector<RewardedAnswer> Respondent::as_texts(const GeneratedAnswers& answers, std::int64_t generation,
                                                 const Tokens& given, const std::vector<Json>& rows) {
  const std::vector<std::int64_t> places = answers.places(generation);
  std::vector<RewardedAnswer> all;
  for (std::size_t i = 0; i < given.size(); ++i)
    all.push_back({.number = answers.number(generation, static_cast<std::int64_t>(i)),
                   .prompt = text(answers.prompts()[places[i]].input_ids),
                   .completion = text(given[i]),
                   .ids = given[i],
                   .row = rows[i]});
  return all;
}

// Computes the rewards on rank 0. An error there becomes an error of all ranks.
std::vector<double> Respondent::judge(Communicator& comm, const GeneratedAnswers& answers,
                                      std::int64_t generation, const Tokens& given) {
  std::vector<double> numbers;
  on_root(comm, [&] {
    std::vector<Json> rows;
    for (const std::int64_t place : answers.places(generation))
      rows.push_back(answers.prompts().prompt_row(place));
    const std::vector<RewardedAnswer> texts = as_texts(answers, generation, given, rows);
    for (const auto& r : p_.rewards) {
      const std::vector<double> each = r->rewards(texts);
      numbers.insert(numbers.end(), each.begin(), each.end());
    }
  });
  numbers.resize(p_.rewards.size() * given.size());
  comm.broadcast(std::as_writable_bytes(std::span(numbers)), 0);
  return numbers;
}

// Returns the reward model's scores of prompts and answers, as tokens.
std::vector<double> Respondent::score(const Pass& pass, const GeneratedAnswers& answers,
                                      std::int64_t generation, const Tokens& given) {
  const std::vector<std::int64_t> places = answers.places(generation);
  const auto rows = static_cast<std::size_t>(answers.options().rows);
  const auto size = [&](std::int64_t b) {
    return std::min(rows, given.size() - rows * static_cast<std::size_t>(b));
  };
  return of_batches(pass, answers.options().batches, size, [&](std::int64_t b) {
    Batch batch;
    const std::size_t first = rows * static_cast<std::size_t>(b);
    for (std::size_t i = first; i < first + size(b); ++i) {
      const auto prompt = answers.prompts()[places[i]].input_ids;
      std::vector<std::int32_t> ids(prompt.begin(), prompt.end());
      ids.insert(ids.end(), given[i].begin(), given[i].end());
      add_scored(batch, ids, p_.padding);
    }
    const std::vector<float> scores = scores_of(pass.context, pass.others.scorer, batch);
    return std::vector<double>(scores.begin(), scores.end());
  });
}

void Respondent::reward(const Pass& pass, const GeneratedAnswers& answers, std::int64_t generation,
                        RewardedAnswers& given) {
  const std::size_t n = given.tokens.size();
  std::vector<double> numbers = judge(pass.policy.store->communicator(), answers, generation, given.tokens);
  if (!p_.scorer.empty()) {
    const std::vector<double> scores = score(pass, answers, generation, given.tokens);
    numbers.insert(numbers.end(), scores.begin(), scores.end());
  }
  given.sums.assign(n, NAN);
  const std::vector<double>& weights = p_.config.objective.reward_weights;
  for (std::size_t k = 0; k < names_.size(); ++k) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(k * n);
    given.each.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(n));
    for (std::size_t i = 0; i < n; ++i)
      if (const double r = given.each[k][i]; !std::isnan(r))
        given.sums[i] =
            (std::isnan(given.sums[i]) ? 0 : given.sums[i]) + (weights.empty() ? 1 : weights[k]) * r;
  }
}

std::vector<std::string> Respondent::columns() const {
  std::vector<std::string> all(std::begin(kLengths), std::end(kLengths));
  for (const std::string& name : names_)
    for (const char* what : {"/mean", "/std"}) all.push_back("rewards/" + name + what);
  return all;
}

std::map<std::string, double> Respondent::figures(const RewardedAnswers& given) const {
  std::map<std::string, double> figures;
  std::vector<double> all, terminated;
  for (const auto& answer : given.tokens) {
    all.push_back(static_cast<double>(answer.size()));
    if (ended(answer)) terminated.push_back(all.back());
  }
  const auto cut = static_cast<double>(all.size() - terminated.size());
  if (terminated.empty()) terminated = {0};
  const auto put = [&](std::size_t first, const std::vector<double>& lengths) {
    figures[kLengths[first]] = mean_and_deviation(lengths).mean;
    figures[kLengths[first + 1]] = *std::min_element(lengths.begin(), lengths.end());
    figures[kLengths[first + 2]] = *std::max_element(lengths.begin(), lengths.end());
  };
  put(0, all);
  put(4, terminated);
  figures[kLengths[3]] = cut / static_cast<double>(all.size());
  for (std::size_t k = 0; k < names_.size(); ++k) {
    const auto [mean, deviation] = mean_and_deviation(given.each[k]);
    figures["rewards/" + names_[k] + "/mean"] = mean;
    figures["rewards/" + names_[k] + "/std"] = deviation;
  }
  return figures;
}

Measures Respondent::shares() {
  const double all = std::max(1e-9, seconds_since(std::exchange(asked_, Steady::now())));
  return {{"time_share/generating", std::exchange(generating_, 0) / all},
          {"time_share/rewarding", std::exchange(rewarding_, 0) / all}};
}

void Respondent::log_to(const std::string& folder, Report& warned) {
  for (const auto& r : p_.rewards) r->log_to(folder, warned);
  asked_ = Steady::now();
}

std::vector<double> of_batches(const Pass& pass, std::int64_t batches,
                               const std::function<std::size_t(std::int64_t)>& size,
                               const std::function<std::vector<double>(std::int64_t)>& f) {
  Communicator& comm = pass.policy.store->communicator();
  std::vector<std::size_t> begins{0};
  for (std::int64_t b = 0; b < batches; ++b) begins.push_back(begins.back() + size(b));
  std::vector<double> all(begins.back());
  for (std::int64_t first = 0; first < batches; first += comm.size()) {
    const std::int64_t b = first + comm.rank();
    const std::vector<double> own = f(std::min(b, batches - 1));
    if (b < batches)
      std::copy(own.begin(), own.end(),
                all.begin() + static_cast<std::ptrdiff_t>(begins[static_cast<std::size_t>(b)]));
  }
  sum_over_ranks(pass.context, comm, all);
  return all;
}

}  // namespace ft
