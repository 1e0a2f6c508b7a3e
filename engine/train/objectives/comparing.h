// An objective that compares answers: runs the passes for a Judge, and for a critic's Judge if there is one.
#pragma once
#include <map>

#include "engine/train/objectives/judge.h"
#include "engine/train/objectives/objective.h"

namespace ft {

class Comparing final : public Objective {
 public:
  Comparing(std::unique_ptr<const Judge> judge, std::int64_t longest,
            std::unique_ptr<const Judge> critic = nullptr)
      : judge_(std::move(judge)), critic_(std::move(critic)), longest_(longest) {}

  // Counts rows or targets: a step's loss is the mean over them, however the step is split.
  std::int64_t count(const BatchShape& s) const override {
    return judge_->counts_targets() ? s.targets : s.compared;
  }
  void forward(const Pass&, const Batch&, Tensor loss) override;
  void forward_backward(const Pass&, const Batch&, Tensor loss, float scale) override;
  std::vector<std::string> columns() const override;
  std::vector<double> take_columns() override;
  std::vector<double> logps(const Pass&, const Batch&, bool reference) override;
  void reference_is_known() override { reference_known_ = true; }
  std::vector<double> state(Ctx&, Communicator&) const override;
  void set_state(const std::vector<double>&) override;

 private:
  struct Known {  // computed before the policy's pass
    std::vector<double> reference;
    double kl = 0;
  };
  class Weigher;
  // Ranks over which KTO's KL is averaged: all ranks' micro-batches in training, this rank's alone in
  // evaluations, so that their result does not depend on the number of ranks.
  enum class Together : bool { alone, ranks };
  Known before(const Pass&, const Batch&, Together);
  double kl(const Pass&, const Batch&, Together);
  std::vector<double> old(const Compared&, const std::vector<double>& values);
  void add_columns(const Pass&, std::vector<double> own, const std::vector<double>& counts);
  void mean_over_ranks(const Pass&, std::vector<double>& own, const std::vector<double>& counts) const;

  std::unique_ptr<const Judge> judge_, critic_;
  std::int64_t longest_;
  bool reference_known_ = false;
  ColumnMeans means_, critic_means_;
  // By index in the data: log-probabilities of rollouts' answers at their first use, for answers that will be
  // used again.
  std::map<std::int64_t, std::vector<double>> first_;
};

// Returns KTO's mismatched rows: each prompt with the complete answer of the row before it, cut to `longest`
// tokens. The first prompt takes the last row's answer. A batch without rows is returned unchanged.
Batch mismatched(const Batch&, std::int64_t longest);

}  // namespace ft
