// What a run minimises, as the Trainer sees it: a part like the optimizer. It says what a step's losses are
// divided by, makes the passes that a micro-batch needs, and measures what its columns of the log show.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/error.h"
#include "engine/model/model.h"
#include "engine/train/objectives/config.h"
#include "engine/train/reports/report.h"

namespace ft {

class TeacherFile;

// A model and where its parameters are.
struct Policy {
  Model* model = nullptr;
  ParameterStore* store = nullptr;
  explicit operator bool() const { return model != nullptr; }
};

// Models beside the policy. reference: a frozen model of its own; none: the policy without its adapters.
// scorer: a frozen reward model. critic: trained too; it says what answers will be worth.
struct Others {
  Policy reference = {}, scorer = {}, critic = {};
};

// What a pass is made of.
struct Pass {
  Ctx& context;
  Policy policy;
  Others others = {};
};

// What a model with a score makes of a batch's targets.
std::vector<float> scores_of(const Ctx&, const Policy& scorer, const Batch&);

// What a step needs did not come, and every rank knows: what was trained so far is whole.
struct StepRefused : UserError {
  using UserError::UserError;
};

// Numbers that all ranks add up, in place.
void sum_over_ranks(Ctx&, Communicator&, std::vector<double>& numbers);

// Means of an objective's columns over micro-batches; one that a micro-batch does not have is left out.
class ColumnMeans {
 public:
  void add(const std::vector<double>& values);  // NaN: none
  // A sum and a count for each column, which add up over micro-batches, ranks and steps.
  std::vector<double> take();
  static Measures means(const std::vector<std::string>& columns, const std::vector<double>& sums);

 private:
  std::vector<double> sums_;
};

class Objective {
 public:
  virtual ~Objective() = default;
  // Before a step (from 0), with the weights that it begins with: every rank calls. May make the data of this
  // step and others. StepRefused where it cannot.
  virtual void begin_step(const Pass&, std::int64_t /*step*/) {}
  // Before an evaluation, likewise; it may make its data. What the loss is, where no pass over the data is
  // needed.
  virtual std::optional<double> begin_evaluation(const Pass&) { return {}; }
  virtual bool is_cross_entropy() const {
    return false;
  }  // of every target: its exponential is the perplexity
  // What a batch adds to the number that a step's losses and gradients are divided by.
  virtual std::int64_t count(const BatchShape&) const = 0;
  // What a batch counts in the mean that is an evaluation's loss.
  virtual std::int64_t count_evaluated(const BatchShape& s) const { return count(s); }
  // loss (1) f64 += the sum of the batch's losses: in an evaluation, that of what counts there.
  virtual void forward(const Pass&, const Batch&, Tensor loss) = 0;
  // The same, and all gradients += those of scale * (that sum).
  virtual void forward_backward(const Pass&, const Batch&, Tensor loss, float scale) = 0;

  // What it measures beside the loss: names, and the sums since they were last taken, see ColumnMeans.
  virtual std::vector<std::string> columns() const { return {}; }
  virtual std::vector<double> take_columns() { return {}; }
  // Log-probabilities of the batch's sequences under the policy, or the reference.
  virtual std::vector<double> logps(const Pass&, const Batch&, bool /*reference*/) {
    throw InternalError("logps: not of this objective");
  }
  // From here on batches bring the reference's (Compared::reference), also on ranks that have none.
  virtual void reference_is_known() {}
  // What it has to remember from step to step, of all ranks: every rank calls, every rank gets it.
  virtual std::vector<double> state(Ctx&, Communicator&) const { return {}; }
  virtual void set_state(const std::vector<double>&) {}
};

// label_smoothing: of sft. longest: tokens of a sequence; KTO's mismatched ones are cut to it. taught: of
// distill, see make_distill.
std::unique_ptr<Objective> make_objective(const ObjectiveConfig&, double label_smoothing = 0,
                                          std::int64_t longest = INT64_MAX,
                                          std::shared_ptr<const TeacherFile> taught = nullptr);

// Learns from Pass::reference, or from what is in a file.
std::unique_ptr<Objective> make_distill(const ObjectiveConfig&,
                                        std::shared_ptr<const TeacherFile> taught = nullptr);

// The cross-entropy of every target, label-smoothed in training by that much.
std::unique_ptr<Objective> make_supervised(double label_smoothing);

}  // namespace ft
