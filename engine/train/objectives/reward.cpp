// Reward models, as in TRL's RewardTrainer: Bradley-Terry on the scores of two answers, with a margin, and a
// term that keeps the scores near zero (Eisenstein et al. 2023).
#include <algorithm>

#include "engine/train/objectives/config.h"
#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/list.h"
#include "engine/train/schedules/list.h"

namespace ft {
namespace {

class Reward : public Judge {
 public:
  explicit Reward(const RewardModelSettings& c) : center_(c.center_rewards_coefficient.value_or(0)) {}

  std::vector<std::string> columns() const override {
    return {"accuracy", "margin", "min_reward", "mean_reward", "max_reward"};
  }

  Extremes extremes() const override { return {.least = {2}, .most = {4}}; }

  bool counts_columns() const override { return true; }

  Verdict judge(const Answers& a) const override {
    Verdict v(a);
    double right = 0, margin = 0, sum = 0;
    for (std::size_t i = 0; i < a.count(); ++i) {
      const Answers::Range c = a.answer(2 * i), r = a.answer(2 * i + 1);
      const double sc = score(a, c), sr = score(a, r), d = sc - sr - static_cast<double>(a.rows.value[i]);
      v.loss += -log_sigmoid(d) + center_ * (sc + sr) * (sc + sr);
      v.add_slope(c, -sigmoid(-d) + 2 * center_ * (sc + sr));
      v.add_slope(r, sigmoid(-d) + 2 * center_ * (sc + sr));
      right += sc > sr;
      margin += sc - sr;
      sum += sc + sr;
    }
    const double rows = static_cast<double>(a.count());
    const auto [least, most] = std::minmax_element(a.values.begin(), a.values.end());
    v.columns = {right / rows, margin / rows, *least, sum / (2 * rows), *most};
    v.counts.assign(v.columns.size(), rows);
    return v;
  }

 private:
  static double score(const Answers& a, const Answers::Range& r) { return a.values[r.begin]; }
  double center_;
};

std::unique_ptr<Judge> make_reward(const ObjectiveConfig& c) { return std::make_unique<Reward>(c); }

}  // namespace

const ObjectiveKind objectives::kReward{.name = "reward",
                                        .rate = {1e-4, 1e-4, &schedules::kLinear},
                                        .rows = ObjectiveRows::pairs,
                                        .scores = true,
                                        .settings = settings_of<RewardModelSettings>,
                                        .judge = make_reward};

}  // namespace ft
