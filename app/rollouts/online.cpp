#include "app/rollouts/online.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/train/objectives/rollouts.h"

namespace ft {
namespace {

// Columns of PPO, with TRL's names.
const char* const kTotals[] = {"reward",
                               "reward_std",
                               "objective/scores",
                               "objective/kl",
                               "objective/entropy",
                               "objective/non_score_reward",
                               "objective/rlhf_reward"};

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
  if (ppo()) columns_.insert(columns_.end(), std::begin(kTotals), std::end(kTotals));
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
  put(*p_.answers, generation, given);
  measure(*p_.answers, given);
  if (ppo()) {
    std::vector<Trajectory> all = trajectories(pass, *p_.answers, given);
    evaluate(all, p_.config);
    measure(all);
    add_values(all);
  } else if (p_.answers->steps() > 1) {
    // Later steps use the answers too. As in TRL, their ratios are relative to the policy that generated the
    // answers.
    add_old(pass);
  }
  if (file_) write(step + 1, generation, given);
  next_ = step + 1;
}

// Answers the held-out prompts before an evaluation. Returns PPO's loss, the negative of the reward that it
// maximises. Returns nothing for GRPO: as in TRL, its loss is computed by a pass over the answers.
std::optional<double> Online::begin_evaluation(const Pass& pass) {
  root_ = pass.policy.store->communicator().rank() == 0;
  const RewardedAnswers given = respondent_.give(pass, *p_.held_out, 0);
  put(*p_.held_out, 0, given);
  measure(*p_.held_out, given);
  if (!ppo()) return {};
  const std::vector<Trajectory> all = trajectories(pass, *p_.held_out, given);
  measure(all);
  return -figures_["objective/rlhf_reward"];
}

// Stores a generation's answers. An answer without a reward changes nothing: its advantage is 0 for GRPO, and
// PPO does not train it.
void Online::put(GeneratedAnswers& answers, std::int64_t generation, const RewardedAnswers& given) {
  const ScaleRewards scale =
      ppo() ? ScaleRewards::none : p_.config.scale_rewards.value_or(ScaleRewards::group);
  const std::vector<double> worth = advantages(given.sums, answers.options().group, scale);
  std::vector<GeneratedAnswer> all;
  for (std::size_t i = 0; i < given.tokens.size(); ++i) {
    const bool cut = !respondent_.ended(given.tokens[i]);
    all.push_back({.ids = given.tokens[i],
                   .advantage = static_cast<float>(worth[i]),
                   .trained = !(cut && p_.config.mask_truncated_completions.value_or(false)) &&
                              !(ppo() && std::isnan(given.sums[i]))});
  }
  answers.put(generation, std::move(all));
}

std::vector<Trajectory> Online::trajectories(const Pass& pass, const GeneratedAnswers& answers,
                                             const RewardedAnswers& given) {
  const ByToken logps =
      by_token(pass, answers, [&](const Batch& b) { return p_.learning->logps(pass, b, false); });
  ByToken reference, values;
  if (p_.config.has_reference())
    reference = by_token(pass, answers, [&](const Batch& b) { return p_.learning->logps(pass, b, true); });
  if (pass.others.critic)
    values = by_token(pass, answers, [&](const Batch& b) {
      const std::vector<float> scores = scores_of(pass.context, pass.others.critic, b);
      return std::vector<double>(scores.begin(), scores.end());
    });
  std::vector<Trajectory> all;
  for (std::size_t i = 0; i < logps.size(); ++i) {
    Trajectory& t = all.emplace_back(Trajectory{.score = given.sums[i], .logps = logps[i]});
    if (!reference.empty()) t.reference = reference[i];
    if (!values.empty()) t.values = values[i];
  }
  return all;
}

// Adds the log-probabilities of the policy that generated the answers, computed as in training.
void Online::add_old(const Pass& pass) {
  const ByToken logps =
      by_token(pass, *p_.answers, [&](const Batch& b) { return p_.learning->logps(pass, b, false); });
  std::vector<GeneratedAnswer> given = p_.answers->given();
  for (std::size_t i = 0; i < given.size(); ++i) given[i].old_logps.assign(logps[i].begin(), logps[i].end());
  p_.answers->put(p_.answers->generation(), std::move(given));
}

void Online::add_values(const std::vector<Trajectory>& all) {
  std::vector<GeneratedAnswer> given = p_.answers->given();
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Trajectory& t = all[i];
    given[i].advantages.assign(t.advantages.begin(), t.advantages.end());
    given[i].values.assign(t.values.begin(), t.values.end());
    given[i].returns.assign(t.returns.begin(), t.returns.end());
    if (p_.answers->steps() > 1) given[i].old_logps.assign(t.logps.begin(), t.logps.end());
  }
  p_.answers->put(p_.answers->generation(), std::move(given));
}

void Online::measure(const GeneratedAnswers& answers, const RewardedAnswers& given) {
  figures_ = respondent_.figures(given);
  const auto totals = reward_figures(given.sums, answers.options().group,
                                     p_.config.scale_rewards.value_or(ScaleRewards::group));
  figures_["reward"] = totals[0];
  figures_["reward_std"] = totals[1];
  if (!ppo()) figures_["frac_reward_zero_std"] = totals[2];
}

// Adds PPO's columns: means over the answers that have a reward.
void Online::measure(const std::vector<Trajectory>& all) {
  double n = 0, score = 0, kl = 0, entropy = 0, worth = 0;
  for (const Trajectory& t : all) {
    if (std::isnan(t.score)) continue;
    ++n;
    score += t.score;
    kl += t.kl();
    for (const double logp : t.logps) entropy -= logp;
    worth += worth_of(t, p_.config);
  }
  const double k = p_.config.kl_coef.value_or(ObjectiveConfig::kUsualKl);
  figures_["objective/scores"] = score / n;
  figures_["objective/kl"] = kl / n;
  figures_["objective/entropy"] = entropy / n;
  figures_["objective/non_score_reward"] = -k * kl / n;
  figures_["objective/rlhf_reward"] = worth / n;
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

std::vector<double> Online::state(Ctx&, Communicator&) const {
  if (p_.answers->used(next_) == 0) return {};
  std::vector<double> all{static_cast<double>(p_.answers->generation())};
  for (const GeneratedAnswer& a : p_.answers->given()) {
    all.insert(all.end(), {static_cast<double>(a.advantage), a.trained ? 1.0 : 0.0,
                           static_cast<double>(a.ids.size()), static_cast<double>(a.old_logps.size())});
    all.insert(all.end(), a.ids.begin(), a.ids.end());
    for (const auto* numbers : {&a.old_logps, &a.advantages, &a.values, &a.returns})
      all.insert(all.end(), numbers->begin(), numbers->end());
  }
  return all;
}

void Online::set_state(const std::vector<double>& state) {
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
    for (auto* of_ppo : {&a.advantages, &a.values, &a.returns})
      numbers(*of_ppo, ppo() && a.trained ? ids : 0);
  }
  p_.answers->put(generation, std::move(given));
}

void Online::write_to(const std::string& folder, std::int64_t step) {
  file_.emplace(folder + "/rollouts.jsonl", step);
  respondent_.log_to(folder);
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
    if (ppo())
      row["advantages"] = a.advantages;
    else
      row["advantage"] = a.advantage;
    row["ended"] = respondent_.ended(a.ids);
    file_->add(row);
  }
  file_->flush();
}

}  // namespace ft
