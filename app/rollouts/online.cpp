#include "app/rollouts/online.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/rollouts/sampling.h"
#include "data/preference/batch.h"
#include "engine/dist/together.h"
#include "engine/generate/generator.h"
#include "engine/generate/ranks.h"
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

Online::Online(OnlineParts parts)
    : p_(std::move(parts)), chooser_(sampling_of(p_.config), {}), columns_(p_.learning->columns()) {
  columns_.insert(columns_.end(), std::begin(kLengths), std::end(kLengths));
  for (const auto& r : p_.rewards) names_.push_back(r->name());
  if (!p_.scorer.empty()) names_.push_back(p_.scorer);
  for (const std::string& name : names_)
    for (const char* what : {"/mean", "/std"}) columns_.push_back("rewards/" + name + what);
}

void Online::begin_step(const Pass& pass, std::int64_t step) {
  next_ = step + 1;
  root_ = pass.policy.store->communicator().rank() == 0;
  const std::int64_t generation = p_.answers.generation_of(step);
  if (p_.answers.generation() == generation) return;
  if (p_.answers.used(step) > 0)
    throw UserError(Exit::checkpoint,
                    "the checkpoint has no answers for its next step: objective.num_iterations or "
                    "objective.steps_per_generation changed");
  next_ = step;  // until there are answers
  const auto start = Steady::now();
  const Tokens given = generate(pass, generation);
  generating_ += seconds_since(start);
  const auto answered = Steady::now();
  const Rewarded rewarded = reward(pass, generation, given);
  rewarding_ += seconds_since(answered);
  put(generation, given, rewarded);
  // As in TRL: where a later step uses the answers too, ratios are to the policy that gave them.
  if (p_.answers.steps() > 1) add_old(pass);
  measure(given, rewarded);
  if (file_) write(step + 1, generation, given, rewarded);
  next_ = step + 1;
}

// The end token is an answer's last one, so the chooser knows none.
Online::Tokens Online::generate(const Pass& pass, std::int64_t generation) {
  const GeneratedAnswers& answers = p_.answers;
  const std::vector<std::int64_t> places = answers.places(generation);
  const std::int64_t first = generation * answers.answers();
  std::vector<Prompt> prompts;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto ids = answers.prompts()[places[i]].input_ids;
    prompts.push_back({.ids = {ids.begin(), ids.end()},
                       .max_new_tokens = answers.options().longest,
                       .number = static_cast<std::uint64_t>(first) + i});
  }
  Ctx context = pass.context;
  ParameterStore& store = *pass.policy.store;
  Generator generator(context, store, *pass.policy.model, p_.shape, chooser_);
  const std::vector<Prompt> own = own_prompts(prompts, store.communicator());
  Tokens given(prompts.size());
  generator.run(
      own,
      [&](std::size_t i, std::int32_t token) {
        std::vector<std::int32_t>& answer = given[own[i].number - static_cast<std::uint64_t>(first)];
        answer.push_back(token);
        return !ended(answer);
      },
      asked_of_all(store));
  share_answers(store.communicator(), given);
  return given;
}

bool Online::ended(const std::vector<std::int32_t>& answer) const {
  return std::find(p_.end_tokens.begin(), p_.end_tokens.end(), answer.back()) != p_.end_tokens.end();
}

std::string Online::text(std::span<const std::int32_t> ids) const {
  return p_.tokenizer ? p_.tokenizer->decode(ids, true) : "";
}

std::vector<RewardedAnswer> Online::as_texts(std::int64_t generation, const Tokens& given,
                                             const std::vector<Json>& rows) {
  const std::vector<std::int64_t> places = p_.answers.places(generation);
  std::vector<RewardedAnswer> all;
  for (std::size_t i = 0; i < given.size(); ++i)
    all.push_back({.number = generation * p_.answers.answers() + static_cast<std::int64_t>(i),
                   .prompt = text(p_.answers.prompts()[places[i]].input_ids),
                   .completion = text(given[i]),
                   .ids = given[i],
                   .row = rows[i]});
  return all;
}

// On rank 0; what goes wrong there is an error of all ranks.
std::vector<double> Online::judge(Communicator& comm, std::int64_t generation, const Tokens& given) {
  std::vector<double> numbers;
  Json wrong;
  if (comm.rank() == 0) try {
      std::vector<Json> rows;
      for (const std::int64_t place : p_.answers.places(generation))
        rows.push_back(Json::parse(p_.answers.prompts().row_text(place)));
      const std::vector<RewardedAnswer> answers = as_texts(generation, given, rows);
      for (const auto& r : p_.rewards) {
        const std::vector<double> each = r->rewards(answers);
        numbers.insert(numbers.end(), each.begin(), each.end());
      }
    } catch (const UserError& e) {
      wrong = {static_cast<int>(e.code), e.what()};
    }
  const std::string refused = shared(comm, wrong.is_null() ? "" : json_text(wrong, -1));
  if (!refused.empty()) {
    wrong = Json::parse(refused);
    throw StepRefused(static_cast<Exit>(wrong[0].get<int>()), wrong[1].get<std::string>());
  }
  numbers.resize(p_.rewards.size() * given.size());
  comm.broadcast(std::as_writable_bytes(std::span(numbers)), 0);
  return numbers;
}

// By the reward model, of prompts and answers as they are; ranks take micro-batches in turns.
std::vector<double> Online::score(const Pass& pass, std::int64_t generation, const Tokens& given) {
  Communicator& comm = pass.policy.store->communicator();
  const std::vector<std::int64_t> places = p_.answers.places(generation);
  const auto rows = static_cast<std::size_t>(p_.answers.options().rows);
  std::vector<double> all(given.size());
  for (std::size_t first = 0; first < given.size(); first += rows) {
    if (first / rows % static_cast<std::size_t>(comm.size()) != static_cast<std::size_t>(comm.rank()))
      continue;
    Batch batch;
    for (std::size_t i = first; i < first + rows; ++i) {
      const auto prompt = p_.answers.prompts()[places[i]].input_ids;
      std::vector<std::int32_t> ids(prompt.begin(), prompt.end());
      ids.insert(ids.end(), given[i].begin(), given[i].end());
      add_scored(batch, ids, p_.padding);
    }
    const std::vector<float> scores = scores_of(pass.context, pass.scorer, batch);
    std::copy(scores.begin(), scores.end(), all.begin() + static_cast<std::ptrdiff_t>(first));
  }
  sum_over_ranks(pass.context, comm, all);
  return all;
}

Online::Rewarded Online::reward(const Pass& pass, std::int64_t generation, const Tokens& given) {
  std::vector<double> numbers = judge(pass.policy.store->communicator(), generation, given);
  if (!p_.scorer.empty()) {
    const std::vector<double> scores = score(pass, generation, given);
    numbers.insert(numbers.end(), scores.begin(), scores.end());
  }
  Rewarded all{.each = {}, .sums = std::vector<double>(given.size(), NAN)};
  const std::vector<double>& weights = p_.config.objective.reward_weights;
  for (std::size_t k = 0; k < names_.size(); ++k) {
    const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(k * given.size());
    all.each.emplace_back(begin, begin + std::ssize(given));
    for (std::size_t i = 0; i < given.size(); ++i)
      if (const double r = all.each[k][i]; !std::isnan(r))
        all.sums[i] = (std::isnan(all.sums[i]) ? 0 : all.sums[i]) + (weights.empty() ? 1 : weights[k]) * r;
  }
  return all;
}

void Online::put(std::int64_t generation, const Tokens& given, const Rewarded& rewarded) {
  const ObjectiveConfig& o = p_.config.objective;
  const std::vector<double> worth =
      advantages(rewarded.sums, p_.answers.options().group, o.scale_rewards.value_or(ScaleRewards::group));
  std::vector<GeneratedAnswer> all;
  for (std::size_t i = 0; i < given.size(); ++i)
    all.push_back({.ids = given[i],
                   .advantage = static_cast<float>(worth[i]),
                   .trained = ended(given[i]) || !o.mask_truncated_completions.value_or(false)});
  p_.answers.put(generation, std::move(all));
}

// Log-probabilities as training computes them, of the policy that gave the answers.
void Online::add_old(const Pass& pass) {
  std::vector<GeneratedAnswer> given = p_.answers.given();
  const auto trained = [](const GeneratedAnswer& a) { return a.trained ? a.ids.size() : 0; };
  Communicator& comm = pass.policy.store->communicator();
  const std::int64_t rows = p_.answers.options().rows;
  std::vector<double> all;
  for (std::int64_t b = 0; b < p_.answers.options().batches; ++b) {
    std::size_t count = 0;
    for (std::int64_t r = b * rows; r < (b + 1) * rows; ++r)
      count += trained(given[static_cast<std::size_t>(r)]);
    std::vector<double> logps(count);
    if (b % comm.size() == comm.rank()) logps = p_.learning->logps(pass, p_.answers.batch_of(b), false);
    all.insert(all.end(), logps.begin(), logps.end());
  }
  sum_over_ranks(pass.context, comm, all);
  auto next = all.begin();
  for (GeneratedAnswer& a : given) {
    const auto end = next + static_cast<std::ptrdiff_t>(trained(a));
    a.old_logps.assign(next, end);
    next = end;
  }
  p_.answers.put(p_.answers.generation(), std::move(given));
}

// As TRL names them.
void Online::measure(const Tokens& given, const Rewarded& rewarded) {
  std::vector<double> all, terminated;
  for (const auto& answer : given) {
    all.push_back(static_cast<double>(answer.size()));
    if (ended(answer)) terminated.push_back(all.back());
  }
  if (terminated.empty()) terminated = {0};
  const auto put = [&](std::size_t first, const std::vector<double>& lengths) {
    figures_[kLengths[first]] = mean_and_deviation(lengths).mean;
    figures_[kLengths[first + 1]] = *std::min_element(lengths.begin(), lengths.end());
    figures_[kLengths[first + 2]] = *std::max_element(lengths.begin(), lengths.end());
  };
  put(0, all);
  put(4, terminated);
  const auto cut = std::count_if(given.begin(), given.end(), [&](const auto& a) { return !ended(a); });
  figures_[kLengths[3]] = static_cast<double>(cut) / static_cast<double>(given.size());
  for (std::size_t k = 0; k < names_.size(); ++k) {
    const auto [mean, deviation] = mean_and_deviation(rewarded.each[k]);
    figures_["rewards/" + names_[k] + "/mean"] = mean;
    figures_["rewards/" + names_[k] + "/std"] = deviation;
  }
  const auto figures = reward_figures(rewarded.sums, p_.answers.options().group,
                                      p_.config.objective.scale_rewards.value_or(ScaleRewards::group));
  figures_["reward"] = figures[0];
  figures_["reward_std"] = figures[1];
  figures_["frac_reward_zero_std"] = figures[2];
}

// Figures of a generation are the same on all ranks, and count once.
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
  if (p_.answers.used(next_) == 0) return {};
  std::vector<double> all{static_cast<double>(p_.answers.generation())};
  for (const GeneratedAnswer& a : p_.answers.given()) {
    all.insert(all.end(), {static_cast<double>(a.advantage), a.trained ? 1.0 : 0.0,
                           static_cast<double>(a.ids.size()), static_cast<double>(a.old_logps.size())});
    all.insert(all.end(), a.ids.begin(), a.ids.end());
    all.insert(all.end(), a.old_logps.begin(), a.old_logps.end());
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
  const auto last_id = static_cast<double>(p_.vocab_size - 1),
             longest = static_cast<double>(p_.answers.options().longest);
  const auto generation = static_cast<std::int64_t>(next(0, 9e15));
  std::vector<GeneratedAnswer> given(static_cast<std::size_t>(p_.answers.answers()));
  for (GeneratedAnswer& a : given) {
    a.advantage = static_cast<float>(next(-1e30, 1e30));
    a.trained = next(0, 1) != 0;
    const auto ids = static_cast<std::size_t>(next(1, longest)),
               old = static_cast<std::size_t>(next(0, longest));
    for (std::size_t t = 0; t < ids; ++t) a.ids.push_back(static_cast<std::int32_t>(next(0, last_id)));
    for (std::size_t t = 0; t < old; ++t) a.old_logps.push_back(static_cast<float>(next(-1e30, 1e30)));
  }
  p_.answers.put(generation, std::move(given));
}

void Online::write_to(const std::string& folder, std::int64_t step) {
  file_.emplace(folder + "/rollouts.jsonl", step);
  for (const auto& r : p_.rewards) r->log_to(folder);
  asked_ = Steady::now();
}

void Online::write(std::int64_t step, std::int64_t generation, const Tokens& given,
                   const Rewarded& rewarded) {
  const auto number = [](double x) { return std::isnan(x) ? Json() : Json(x); };
  const std::vector<std::int64_t> places = p_.answers.places(generation);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const auto prompt = p_.answers.prompts()[places[i]].input_ids;
    Json row = {{"step", step}, {"prompt_ids", prompt}, {"completion_ids", given[i]}};
    if (p_.tokenizer) {
      row["prompt"] = text(prompt);
      row["completion"] = text(given[i]);
    }
    row["reward"] = number(rewarded.sums[i]);
    for (std::size_t k = 0; k < names_.size(); ++k) row["rewards"][names_[k]] = number(rewarded.each[k][i]);
    row["advantage"] = p_.answers.given()[i].advantage;
    row["ended"] = ended(given[i]);
    file_->add(row);
  }
  file_->flush();
}

Measures Online::shares() {
  const double all = std::max(1e-9, seconds_since(std::exchange(asked_, Steady::now())));
  return {{"time_share/generating", std::exchange(generating_, 0) / all},
          {"time_share/rewarding", std::exchange(rewarding_, 0) / all}};
}

}  // namespace ft
