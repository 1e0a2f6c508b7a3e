// An objective of examples whose answers the policy or a teacher gives anew before each step, with the
// weights at the beginning of the step (data/preference/own_answers.h). Evaluations have the data's answers.
#pragma once
#include <memory>

#include "app/assembly/built_data.h"
#include "app/assembly/built_objective.h"
#include "app/rollouts/answers_to.h"

namespace ft {

class OnPolicy final : public Objective {
 public:
  // learning: trains on given answers, and has no columns of its own.
  OnPolicy(std::unique_ptr<Objective> learning, OwnAnswers&, AnswerSampling);

  void begin_step(const Pass&, std::int64_t step) override;
  std::int64_t count(const BatchShape& s) const override { return learning_->count(s); }
  std::int64_t count_evaluated(const BatchShape& s) const override { return learning_->count_evaluated(s); }
  void forward(const Pass& p, const Batch& b, Tensor loss) override { learning_->forward(p, b, loss); }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    learning_->forward_backward(p, b, loss, scale);
  }
  std::vector<std::string> columns() const override;
  std::vector<double> take_columns() override;

 private:
  OwnAnswers::Tokens ask(const Pass&, const Policy&, std::int64_t step, Author) const;
  void measure(const OwnAnswers::Tokens&);

  std::unique_ptr<Objective> learning_;
  OwnAnswers& answers_;
  AnswerSampling sampling_;
  bool root_ = true;
  std::vector<double> lengths_, cuts_;  // of the policy's answers, until they are taken
};

// Replaces the run's objective by an OnPolicy objective if models answer its examples.
void go_on_policy(BuiltObjective&, const RunConfig&, const BuiltModel&, BuiltData&);

}  // namespace ft
