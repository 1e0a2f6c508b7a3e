// An objective whose policy generates its answers, with the weights at the beginning of a step. Has the
// answers valued and runs the passes over them. Evaluations answer the held-out prompts in the same way.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "app/assembly/built_data.h"
#include "app/assembly/built_objective.h"
#include "app/rollouts/respondent.h"
#include "app/rollouts/rollouts_file.h"
#include "engine/train/objectives/rollout_correction.h"
#include "engine/train/objectives/valuation.h"

namespace ft {

struct OnlineParts {
  const ObjectiveConfig& config;
  std::unique_ptr<Objective> learning;  // trains on given answers
  std::unique_ptr<const Valuation> valuation;
  GeneratedAnswers *answers, *held_out;  // null: no training or no evaluation
  std::int64_t vocab_size = 0;
};

class Online final : public Objective {
 public:
  Online(OnlineParts, RespondentParts);

  void begin_step(const Pass&, std::int64_t step) override;
  std::optional<double> begin_evaluation(const Pass&) override;
  std::int64_t count(const BatchShape& s) const override { return p_.learning->count(s); }
  void forward(const Pass& p, const Batch& b, Tensor loss) override { p_.learning->forward(p, b, loss); }
  void forward_backward(const Pass& p, const Batch& b, Tensor loss, float scale) override {
    p_.learning->forward_backward(p, b, loss, scale);
  }
  std::vector<double> logps(const Pass& p, const Batch& b, bool reference) override {
    return p_.learning->logps(p, b, reference);
  }
  std::vector<std::string> columns() const override { return columns_; }
  std::vector<double> take_columns() override;
  // Returns the answers if the next step uses them too, and those that were asked for ahead.
  std::vector<double> state(Ctx&, Communicator&) const override;
  void set_state(const std::vector<double>&) override;

  // Writes rollouts.jsonl into the run's folder, on rank 0. The file may already have rows of steps before
  // `step`. `warned` hears of rows that cannot be written, and outlives the run.
  void write_to(const std::string& folder, std::int64_t step, Report& warned);
  Measures shares() { return respondent_.shares(); }
  void tell(Respondent::Progress begun) { respondent_.tell(std::move(begun)); }

 private:
  void put(GeneratedAnswers&, std::int64_t generation, const RewardedAnswers&,
           const std::vector<Trajectory>&);
  std::vector<double> given_state() const;
  void set_given_state(std::span<const double>);
  bool corrects() const { return p_.config.correction() != RolloutCorrection::none; }
  // Returns log-probabilities of the trained answers under the policy and under the program that generated
  // them.
  std::vector<SampledLogps> sampled(const RewardedAnswers&, const std::vector<Trajectory>&) const;
  std::vector<Trajectory> scored(const Pass&, GeneratedAnswers&, std::int64_t generation,
                                 const RewardedAnswers&, bool logps);
  void measure(const GeneratedAnswers&, const RewardedAnswers&, const std::vector<Trajectory>&);
  void write(std::int64_t step, std::int64_t generation, const RewardedAnswers&);

  OnlineParts p_;
  Respondent respondent_;
  std::vector<std::string> columns_;
  std::map<std::string, double> figures_;  // columns of the last generation, until they are taken
  std::optional<RolloutsFile> file_;
  std::int64_t next_ = 0;  // the next step
  bool root_ = true;
};

// Replaces the run's objective by an Online objective and returns it. Returns null if the run does not
// generate answers.
Online* go_online(BuiltObjective&, const RunConfig&, const BuiltModel&, BuiltData&);

}  // namespace ft
