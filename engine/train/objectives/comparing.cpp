#include "engine/train/objectives/comparing.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/ops.h"
#include "engine/train/objectives/host_loss.h"

namespace ft {
namespace {

std::vector<double> widened(const std::vector<float>& v) { return {v.begin(), v.end()}; }

// Keeps the values of targets from a pass without gradient.
class KeptValues final : public RowLoss {
 public:
  explicit KeptValues(double temperature) : temperature_(static_cast<float>(temperature)) {}
  float temperature() const override { return temperature_; }
  void weigh(Ctx& c, const RowValues& v, Tensor) override { all = widened(download(c, v.values)); }
  std::vector<double> all;

 private:
  float temperature_;
};

// Returns a context without dropout, as TRL compares answers.
Ctx comparing(const Ctx& from, bool adapters = true) {
  Ctx c = from;
  c.train = false;
  c.adapters = adapters;
  return c;
}

}  // namespace

// Passes a model's values to the judge, and returns the weight of each target.
class Comparing::Weigher final : public RowLoss {
 public:
  // loss: empty for the critic, whose loss is not reported as the run's.
  Weigher(Comparing& owner, const Judge& judge, const Batch& batch, const Known& known, Tensor loss,
          float scale)
      : owner_(owner), judge_(judge), batch_(batch), known_(known), loss_(loss), scale_(scale) {}

  float temperature() const override { return static_cast<float>(judge_.temperature()); }
  bool wants_statistics() const override { return judge_.needs_statistics(); }
  void weigh(Ctx& c, const RowValues& v, Tensor weights) override {
    const std::vector<double> values = widened(download(c, v.values));
    const std::vector<float> statistics = download(c, v.statistics);
    std::vector<float> each(values.size());
    double loss = 0;
    if (c.ops.computes() && batch_.compared.rows() > 0) loss = judge(values, statistics, v.scores, each);
    if (loss_ && batch_.compared.rows() > 0) add_to_loss(c, loss_, loss);
    if (weights && weights.numel() > 0) c.ops.upload(weights, each.data());
  }
  std::vector<double> columns, counts;  // of the batch; empty: it has no rows, or is only planned

 private:
  // Returns the loss. Sets the columns, and each target's weight.
  double judge(const std::vector<double>& values, const std::vector<float>& statistics, bool scores,
               std::vector<float>& each) {
    std::vector<double> old;
    if (judge_.needs_old()) old = owner_.old(batch_.compared, values);
    const Verdict verdict =
        judge_.judge({batch_.compared, values, statistics, known_.reference, known_.kl, old});
    columns = verdict.columns;
    counts = verdict.counts;
    const double sign = scores ? 1 : -1;  // a value is -log p, or a score
    for (std::size_t t = 0; t < each.size(); ++t)
      each[t] = static_cast<float>(sign * verdict.slopes[t]) * scale_;
    return verdict.loss;
  }

  Comparing& owner_;
  const Judge& judge_;
  const Batch& batch_;
  const Known& known_;
  Tensor loss_;
  float scale_;
};

std::vector<double> Comparing::logps(const Pass& p, const Batch& b, bool reference) {
  const Policy of = reference && p.others.reference ? p.others.reference : p.policy;
  Ctx c = comparing(p.context, !reference || static_cast<bool>(p.others.reference));
  KeptValues values(judge_->temperature());
  of.model->forward(c, *of.store, b, &values);
  if (!c.ops.computes()) return {};
  return judge_->reference({b.compared, values.all, {}, {}});
}

// Returns the old log-probabilities: given in the rows, or the policy's at the first use of an answer.
std::vector<double> Comparing::old(const Compared& rows, const std::vector<double>& values) {
  std::vector<double> all(values.size());
  for (std::size_t s = 0; s < rows.first_answer.size(); ++s) {
    const auto begin = static_cast<std::size_t>(rows.first_target[s]),
               end = static_cast<std::size_t>(rows.first_target[s + 1]);
    std::vector<double> first;
    for (std::size_t t = begin; t < end; ++t) first.push_back(-values[t]);
    const auto kept = first_.find(rows.sample[s]);
    if (rows.uses > 0 && kept != first_.end() && kept->second.size() == first.size()) first = kept->second;
    for (std::size_t t = begin; t < end; ++t)
      all[t] = std::isnan(rows.old[t]) ? first[t - begin] : static_cast<double>(rows.old[t]);
    // Values that are not finite, of a step that is skipped, are not kept.
    const bool finite = std::ranges::all_of(first, [](double x) { return std::isfinite(x); });
    if (rows.used_again && finite)
      first_[rows.sample[s]] = std::move(first);
    else
      first_.erase(rows.sample[s]);
  }
  return all;
}

// Returns the answers of all ranks, one after another: index, number of tokens, their log-probabilities.
std::vector<double> Comparing::state(Ctx& c, Communicator& comm) const {
  std::vector<double> own;
  for (const auto& [sample, logps] : first_) {
    own.push_back(static_cast<double>(sample));
    own.push_back(static_cast<double>(logps.size()));
    own.insert(own.end(), logps.begin(), logps.end());
  }
  std::vector<double> sizes(static_cast<std::size_t>(comm.size()));
  sizes[static_cast<std::size_t>(comm.rank())] = static_cast<double>(own.size());
  sum_over_ranks(c, comm, sizes);
  std::size_t all = 0, begin = 0;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    if (r == static_cast<std::size_t>(comm.rank())) begin = all;
    all += static_cast<std::size_t>(sizes[r]);
  }
  std::vector<double> state(all);
  std::copy(own.begin(), own.end(), state.begin() + static_cast<std::ptrdiff_t>(begin));
  sum_over_ranks(c, comm, state);
  return state;
}

void Comparing::set_state(const std::vector<double>& state) {
  first_.clear();
  for (std::size_t i = 0; i + 1 < state.size();) {
    const auto n =
        static_cast<std::size_t>(std::clamp(state[i + 1], 0.0, static_cast<double>(state.size() - i - 2)));
    std::vector<double>& logps = first_[static_cast<std::int64_t>(state[i])];
    logps.assign(state.begin() + static_cast<std::ptrdiff_t>(i + 2),
                 state.begin() + static_cast<std::ptrdiff_t>(i + 2 + n));
    i += 2 + n;
  }
}

// Returns KTO's estimate of the policy's distance from the reference: the mean over the rows.
double Comparing::kl(const Pass& p, const Batch& b, Together together) {
  const Batch other = mismatched(b, longest_);
  const std::vector<double> own = logps(p, other, false), reference = logps(p, other, true);
  double sum = 0;
  for (std::size_t s = 0; s < own.size(); ++s) sum += own[s] - reference[s];
  std::vector<double> all{sum, static_cast<double>(own.size())};
  if (together == Together::ranks) sum_over_ranks(p.context, p.policy.store->communicator(), all);
  return all[1] > 0 ? std::max(0.0, all[0] / all[1]) : 0;
}

Comparing::Known Comparing::before(const Pass& p, const Batch& b, Together together) {
  Known k;
  k.reference = b.compared.reference;
  if (judge_->needs_reference() && !reference_known_) k.reference = logps(p, b, true);
  if (judge_->needs_kl()) k.kl = kl(p, b, together);
  return k;
}

void Comparing::forward(const Pass& p, const Batch& b, Tensor loss) {
  const Known known = before(p, b, Together::alone);
  Ctx c = comparing(p.context);
  Weigher weigher(*this, *judge_, b, known, loss, 0);
  p.policy.model->forward(c, *p.policy.store, b, &weigher);
  if (!weigher.columns.empty()) means_.add(weigher.columns);
}

void Comparing::forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) {
  const Known known = before(p, b, Together::ranks);
  Ctx c = comparing(p.context);
  Weigher weigher(*this, *judge_, b, known, loss, scale);
  p.policy.model->forward_backward(c, *p.policy.store, b, &weigher);
  add_columns(p, std::move(weigher.columns), weigher.counts);
  if (!critic_) return;
  Weigher values(*this, *critic_, b, known, {}, scale);
  p.others.critic.model->forward_backward(c, *p.others.critic.store, b, &values);
  if (!values.columns.empty()) critic_means_.add(values.columns);
}

// Gives every rank the means over the counted rows or tokens of all ranks, as TRL does, which gathers both.
void Comparing::mean_over_ranks(const Pass& p, std::vector<double>& own,
                                const std::vector<double>& counts) const {
  own.resize(judge_->columns().size());
  std::vector<double> all(2 * own.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] <= 0) continue;
    all[2 * i] = counts[i] * own[i];
    all[2 * i + 1] = counts[i];
  }
  sum_over_ranks(p.context, p.policy.store->communicator(), all);
  // A column without any count becomes NaN.
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = all[2 * i] / all[2 * i + 1];
  judge_->complete(own);
}

// Adds the columns. As in TRL, which gathers all ranks' rewards, least and most are taken over the ranks'
// micro-batches.
void Comparing::add_columns(const Pass& p, std::vector<double> own, const std::vector<double>& counts) {
  const Judge::Extremes extremes = judge_->extremes();
  Communicator& comm = p.policy.store->communicator();
  const auto of_all = [&](std::size_t column, auto better) {
    // For each rank: 1 if it has a value, and the value.
    std::vector<double> all(2 * static_cast<std::size_t>(comm.size()));
    const auto at = 2 * static_cast<std::size_t>(comm.rank());
    if (!own.empty()) {
      all[at] = 1;
      all[at + 1] = own[column];
    }
    sum_over_ranks(p.context, comm, all);
    for (std::size_t r = 0; r < all.size() && !own.empty(); r += 2)
      if (all[r] > 0) own[column] = better(own[column], all[r + 1]);
  };
  if (comm.size() > 1) {
    for (const std::size_t i : extremes.least) of_all(i, [](double a, double b) { return std::min(a, b); });
    for (const std::size_t i : extremes.most) of_all(i, [](double a, double b) { return std::max(a, b); });
  }
  if (comm.size() > 1 && judge_->counts_columns()) mean_over_ranks(p, own, counts);
  if (!own.empty()) means_.add(own);
}

std::vector<std::string> Comparing::columns() const {
  std::vector<std::string> all = judge_->columns();
  if (critic_)
    for (std::string& name : critic_->columns()) all.push_back(std::move(name));
  return all;
}

// A rank without rows returns zeros for every column.
std::vector<double> Comparing::take_columns() {
  std::vector<double> sums = means_.take();
  sums.resize(2 * judge_->columns().size());
  const std::vector<double> critics = critic_means_.take();
  sums.insert(sums.end(), critics.begin(), critics.end());
  sums.resize(2 * columns().size());
  return sums;
}

Batch mismatched(const Batch& b, std::int64_t longest) {
  const std::int64_t n = b.compared.sequences();
  if (n == 0) return b;
  const auto at = [](const std::vector<std::int32_t>& v, std::int64_t i) {
    return v[static_cast<std::size_t>(i)];
  };
  // Returns the beginning of a sequence's answer: after the row that predicts its first token.
  const auto border = [&](std::int64_t s) {
    const std::int32_t first = at(b.compared.first_answer, s), end = at(b.compared.first_target, s + 1);
    return first < end ? at(b.target_rows, first) + 1 : at(b.starts, s + 1);
  };
  Batch m;
  m.starts = m.compared.first_target = {0};
  for (std::int64_t s = 0; s < n; ++s) {
    const std::int64_t other = (s + n - 1) % n, prompt = border(s) - at(b.starts, s);
    const auto begin = static_cast<std::int32_t>(m.tokens());
    const auto add = [&](std::int64_t from, std::int64_t to) {
      m.input_ids.insert(m.input_ids.end(), b.input_ids.begin() + from, b.input_ids.begin() + to);
    };
    add(at(b.starts, s), border(s));
    const std::int64_t room = std::max<std::int64_t>(0, longest - prompt);
    const std::int64_t answer = at(b.starts, other + 1) - border(other);
    add(border(other), border(other) + std::min(answer, room));
    if (!b.compared.tails.empty()) {
      const auto& tail = b.compared.tails[static_cast<std::size_t>(other)];
      const auto more = std::clamp<std::int64_t>(room - answer, 0, std::ssize(tail));
      m.input_ids.insert(m.input_ids.end(), tail.begin(), tail.begin() + more);
    }
    m.compared.first_answer.push_back(static_cast<std::int32_t>(m.targets.size()));
    for (std::int64_t t = 0; t < m.tokens() - begin; ++t) {
      m.positions.push_back(static_cast<std::int32_t>(t));
      if (t < std::max<std::int64_t>(1, prompt)) continue;
      m.target_rows.push_back(begin + static_cast<std::int32_t>(t) - 1);
      m.targets.push_back(at(m.input_ids, begin + t));
    }
    m.starts.push_back(static_cast<std::int32_t>(m.tokens()));
    m.compared.first_target.push_back(static_cast<std::int32_t>(m.targets.size()));
    m.compared.value.push_back(0);
  }
  return m;
}

}  // namespace ft
