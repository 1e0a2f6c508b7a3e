// An objective that compares answers: the passes around a Judge, and where there is a critic around its own.
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

  // Rows: the loss of a step is the mean over its pairs, however it is split.
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
  struct Known {  // before the policy's own pass
    std::vector<double> reference;
    double kl = 0;
  };
  class Weigher;
  // Whether KTO's KL is the mean over all ranks' micro-batches or over this one's: an evaluation is the same
  // whatever ranks.
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
  // Log-probabilities of rollouts' answers when they were first used, by their place in the data; of answers
  // that will be used again.
  std::map<std::int64_t, std::vector<double>> first_;
};

// KTO's mismatched rows: each prompt with the whole answer of the row before it, of the first the last one's,
// cut to `longest` tokens. A batch without rows as it is.
Batch mismatched(const Batch&, std::int64_t longest);

}  // namespace ft
