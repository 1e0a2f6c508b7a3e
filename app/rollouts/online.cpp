#include "app/rollouts/online.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace ft {
namespace {

// A number for each token of each trained answer: [answer][token].
using ByToken = std::vector<std::vector<double>>;

ByToken by_token(const Pass& pass, const GeneratedAnswers& answers,
                 const std::function<std::vector<double>(const Batch&)>& f) {
  const std::int64_t rows = answers.options().rows;
  const auto tokens = [&](std::int64_t i) {
    const GeneratedAnswer& a = answers.given()[static_cast<std::size_t>(i)];
    return a.trained ? a.ids.size() : 0;
  };
  const auto size = [&](std::int64_t b) {
    std::size_t sum = 0;
    for (std::int64_t i = b * rows; i < std::min((b + 1) * rows, answers.answers()); ++i) sum += tokens(i);
    return sum;
  };
  const std::vector<double> all = of_batches(pass, answers.options().batches, size,
                                             [&](std::int64_t b) { return f(answers.batch_of(b)); });
  ByToken each;
  auto next = all.begin();
  for (std::int64_t i = 0; i < answers.answers(); ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(tokens(i));
    each.emplace_back(next, end);
    next = end;
  }
  return each;
}

}  // namespace

Online::Online(OnlineParts parts, RespondentParts respondent)
    : p_(std::move(parts)), respondent_(std::move(respondent)), columns_(p_.learning->columns()) {
  for (std::string& name : respondent_.columns()) columns_.push_back(std::move(name));
  for (std::string& name : p_.valuation->columns()) columns_.push_back(std::move(name));
  if (corrects())
    for (std::string& name : correction_columns()) columns_.push_back(std::move(name));
}

void Online::begin_step(const Pass& pass, std::int64_t step) {
  next_ = step + 1;
  root_ = pass.policy.store->communicator().rank() == 0;
  const std::int64_t generation = p_.answers->generation_of(step);
  if (p_.answers->generation() == generation) return;
  if (p_.answers->used(step) > 0)
    throw UserError(Exit::checkpoint,
                    "the checkpoint has no answers for its next step: objective.num_iterations or "
                    "objective.steps_per_generation changed");
  next_ = step;  // if generating throws, no answers are there for the step
  const RewardedAnswers given = respondent_.give(pass, *p_.answers, generation);
  // Later steps may use the answers too. As in TRL, their ratios are relative to the policy that generated
  // the answers.
  const bool logps = p_.valuation->needs_logps() || p_.answers->steps() > 1 || corrects();
  std::vector<Trajectory> all = scored(pass, *p_.answers, generation, given, logps);
  p_.valuation->value(all, p_.answers->options().group);
  put(*p_.answers, generation, given, all);
  measure(*p_.answers, given, all);
  if (file_) write(step + 1, generation, given);
  next_ = step + 1;
}

// Answers the held-out prompts before an evaluation. Returns the loss if the valuation knows it.
std::optional<double> Online::begin_evaluation(const Pass& pass) {
  root_ = pass.policy.store->communicator().rank() == 0;
  const RewardedAnswers given = respondent_.give(pass, *p_.held_out, 0);
  std::vector<Trajectory> all =
      scored(pass, *p_.held_out, 0, given, p_.valuation->needs_logps() || corrects());
  measure(*p_.held_out, given, all);
  if (const std::optional<double> loss = p_.valuation->loss(all)) return loss;
  p_.valuation->value(all, p_.held_out->options().group);
  put(*p_.held_out, 0, given, all);
  return {};
}

void Online::put(GeneratedAnswers& answers, std::int64_t generation, const RewardedAnswers& given,
                 const std::vector<Trajectory>& worth) {
  std::vector<GeneratedAnswer> all;
  const std::vector<SampledLogps> logps =
      corrects() ? sampled(given, worth) : std::vector<SampledLogps>(worth.size());
  for (std::size_t i = 0; i < worth.size(); ++i) {
    const Trajectory& t = worth[i];
    const std::vector<std::int32_t>& ids = given.tokens[i];
    GeneratedAnswer& a = all.emplace_back(GeneratedAnswer{.ids = ids});
    a.advantage = static_cast<float>(t.advantage);
    a.trained = p_.valuation->trains(t.score, respondent_.ended(ids));
    a.advantages.assign(t.advantages.begin(), t.advantages.end());
    a.values.assign(t.values.begin(), t.values.end());
    a.returns.assign(t.returns.begin(), t.returns.end());
    const bool finite = std::ranges::all_of(t.logps, [](double x) { return std::isfinite(x); });
    if (answers.steps() > 1 && finite) a.old_logps.assign(t.logps.begin(), t.logps.end());
    if (a.trained && !logps[i].policy.empty()) {
      const std::vector<double> weights = correction_weights(p_.config, logps[i]);
      a.weights.assign(weights.begin(), weights.end());
    }
  }
  answers.put(generation, std::move(all));
}

// Returns the answers with their rewards. logps: also with log-probabilities under the policy that generated
// them, computed as in training, and with the numbers of the reference and the critic that the valuation
// needs.
std::vector<Trajectory> Online::scored(const Pass& pass, GeneratedAnswers& answers, std::int64_t generation,
                                       const RewardedAnswers& given, bool logps) {
  std::vector<Trajectory> all;
  for (const double sum : given.sums) all.push_back({.score = sum});
  if (!logps) return all;
  put(answers, generation, given, all);  // the passes below read them there
  const auto fill = [&](std::vector<double> Trajectory::*numbers, const auto& of_batch) {
    ByToken each = by_token(pass, answers, of_batch);
    for (std::size_t i = 0; i < all.size(); ++i) all[i].*numbers = std::move(each[i]);
  };
  const auto logps_of = [&](bool reference) {
    return [&, reference](const Batch& b) { return p_.learning->logps(pass, b, reference); };
  };
  fill(&Trajectory::logps, logps_of(false));
  if (p_.valuation->needs_logps() && p_.config.needs().reference)
    fill(&Trajectory::reference, logps_of(true));
  if (pass.others.critic)
    fill(&Trajectory::values, [&](const Batch& b) {
      const std::vector<float> scores = scores_of(pass.context, pass.others.critic, b);
      return std::vector<double>(scores.begin(), scores.end());
    });
  return all;
}

std::vector<SampledLogps> Online::sampled(const RewardedAnswers& given,
                                          const std::vector<Trajectory>& all) const {
  std::vector<SampledLogps> logps(all.size());
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].logps.empty()) logps[i] = {all[i].logps, given.logps[i]};
  return logps;
}

void Online::measure(const GeneratedAnswers& answers, const RewardedAnswers& given,
                     const std::vector<Trajectory>& all) {
  figures_ = respondent_.figures(given);
  for (auto& [name, figure] : p_.valuation->figures(all, answers.options().group)) figures_[name] = figure;
  if (!corrects()) return;
  for (auto& [name, figure] : correction_figures(p_.config, sampled(given, all))) figures_[name] = figure;
}

// Returns the columns' sums and counts. A generation's figures are the same on all ranks, so only rank 0
// counts them.
std::vector<double> Online::take_columns() {
  std::vector<double> sums = p_.learning->take_columns();
  sums.resize(2 * columns_.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const auto found = figures_.find(columns_[i]);
    if (!root_ || found == figures_.end() || std::isnan(found->second)) continue;
    sums[2 * i] += found->second;
    sums[2 * i + 1] += 1;
  }
  figures_.clear();
  return sums;
}

// With answers of the next generation: the length of the other state, that state, and these answers.
std::vector<double> Online::state(Ctx&, Communicator& comm) const {
  std::vector<double> all = given_state();
  if (!respondent_.looks_ahead()) return all;
  all.insert(all.begin(), static_cast<double>(all.size()));
  const std::vector<double> ahead = respondent_.ahead(comm);
  all.insert(all.end(), ahead.begin(), ahead.end());
  return all;
}

void Online::set_state(const std::vector<double>& state) {
  if (state.empty() || !respondent_.looks_ahead()) return set_given_state(state);
  const std::span<const double> rest = std::span(state).subspan(1);
  const auto own = static_cast<std::size_t>(std::clamp(state[0], 0.0, static_cast<double>(rest.size())));
  set_given_state(rest.first(own));
  respondent_.set_ahead(rest.subspan(own));
}

std::vector<double> Online::given_state() const {
  if (p_.answers->used(next_) == 0) return {};
  std::vector<double> all{static_cast<double>(p_.answers->generation())};
  for (const GeneratedAnswer& a : p_.answers->given()) {
    all.insert(all.end(), {static_cast<double>(a.advantage), a.trained ? 1.0 : 0.0,
                           static_cast<double>(a.ids.size()), static_cast<double>(a.old_logps.size())});
    all.insert(all.end(), a.ids.begin(), a.ids.end());
    for (const auto* numbers : {&a.old_logps, &a.advantages, &a.values, &a.returns, &a.weights})
      all.insert(all.end(), numbers->begin(), numbers->end());
  }
  return all;
}

void Online::set_given_state(std::span<const double> state) {
  if (state.empty()) return;
  std::size_t at = 0;
  const auto next = [&](double low, double high) {
    if (at == state.size() || !(low <= state[at] && state[at] <= high))
      throw UserError(Exit::checkpoint,
                      "the checkpoint's answers are not those of this run: objective or data.max_seq_length "
                      "changed");
    return state[at++];
  };
  const auto numbers = [&](std::vector<float>& to, std::size_t count) {
    for (std::size_t t = 0; t < count; ++t) to.push_back(static_cast<float>(next(-1e30, 1e30)));
  };
  const auto last_id = static_cast<double>(p_.vocab_size - 1),
             longest = static_cast<double>(p_.answers->options().longest);
  const auto generation = static_cast<std::int64_t>(next(0, 9e15));
  std::vector<GeneratedAnswer> given(static_cast<std::size_t>(p_.answers->answers()));
  for (GeneratedAnswer& a : given) {
    a.advantage = static_cast<float>(next(-1e30, 1e30));
    a.trained = next(0, 1) != 0;
    const auto ids = static_cast<std::size_t>(next(1, longest)),
               old = static_cast<std::size_t>(next(0, longest));
    for (std::size_t t = 0; t < ids; ++t) a.ids.push_back(static_cast<std::int32_t>(next(0, last_id)));
    numbers(a.old_logps, old);
    for (auto* by_token : {&a.advantages, &a.values, &a.returns})
      numbers(*by_token, p_.valuation->by_token() && a.trained ? ids : 0);
    numbers(a.weights, corrects() && a.trained ? ids : 0);
  }
  p_.answers->put(generation, std::move(given));
}

void Online::write_to(const std::string& folder, std::int64_t step, Report& warned) {
  file_.emplace(folder + "/rollouts.jsonl", step, warned);
  respondent_.log_to(folder, warned);
}

void Online::write(std::int64_t step, std::int64_t generation, const RewardedAnswers& given) {
  const auto number = [](double x) { return std::isnan(x) ? Json() : Json(x); };
  const std::vector<std::int64_t> places = p_.answers->places(generation);
  for (std::size_t i = 0; i < given.tokens.size(); ++i) {
    const auto prompt = p_.answers->prompts()[places[i]].input_ids;
    const GeneratedAnswer& a = p_.answers->given()[i];
    Json row = {{"step", step}, {"prompt_ids", prompt}, {"completion_ids", a.ids}};
    if (respondent_.has_texts()) {
      row["prompt"] = respondent_.text(prompt);
      row["completion"] = respondent_.text(a.ids);
    }
    row["reward"] = number(given.sums[i]);
    for (std::size_t k = 0; k < given.each.size(); ++k)
      row["rewards"][respondent_.names()[k]] = number(given.each[k][i]);
    if (p_.valuation->by_token())
      row["advantages"] = a.advantages;
    else
      row["advantage"] = a.advantage;
    row["ended"] = respondent_.ended(a.ids);
    if (!given.logps.empty()) row["sampling_logps"] = given.logps[i];
    file_->add(row);
  }
  file_->flush();
}

}  // namespace ft
