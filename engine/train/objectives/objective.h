// The objective that a run minimises, as the Trainer sees it. It tells the number by which a step's losses
// are divided, runs the passes of a micro-batch, and measures its columns of the log.
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

// A model and the store of its parameters.
struct Policy {
  Model* model = nullptr;
  ParameterStore* store = nullptr;
  explicit operator bool() const { return model != nullptr; }
};

// Models in addition to the policy. reference: a separate frozen model; none: the policy without its
// adapters. scorer: a frozen reward model. critic: a trained model that predicts the rewards of answers.
struct Others {
  Policy reference = {}, scorer = {}, critic = {};
};

// Context and models of a pass.
struct Pass {
  Ctx& context;
  Policy policy;
  Others others = {};
};

// Returns a scoring model's values of a batch's targets; nothing if operations are only counted.
std::vector<float> scores_of(const Ctx&, const Policy& scorer, const Batch&);

// A step cannot be made, for example because no rewards came. Every rank throws it, and the steps before are
// complete.
struct StepRefused : UserError {
  using UserError::UserError;
};

// Adds up numbers over all ranks, in place, kSumsAtOnce at a time in c.scratch.
inline constexpr std::int64_t kSumsAtOnce = 512;
void sum_over_ranks(Ctx&, Communicator&, std::vector<double>& numbers);

// Means of an objective's columns over micro-batches; a micro-batch without a value for a column is not
// counted.
class ColumnMeans {
 public:
  void add(const std::vector<double>& values);  // NaN: none
  // Returns a sum and a count for each column, which can be added over micro-batches, ranks and steps; clears
  // them.
  std::vector<double> take();
  static Measures means(const std::vector<std::string>& columns, const std::vector<double>& sums);

 private:
  std::vector<double> sums_;
};

class Objective {
 public:
  virtual ~Objective() = default;
  // Called on every rank before a step (from 0), with the weights that the step begins with. May generate the
  // data of this and later steps. Throws StepRefused if it cannot.
  virtual void begin_step(const Pass&, std::int64_t /*step*/) {}
  // Called in the same way before an evaluation; may generate its data. Returns the loss if no pass over the
  // data is needed.
  virtual std::optional<double> begin_evaluation(const Pass&) { return {}; }
  // Returns true if the loss is the cross-entropy of every target: its exponential is the perplexity.
  virtual bool is_cross_entropy() const { return false; }
  // Returns a batch's share of the number by which a step's losses and gradients are divided.
  virtual std::int64_t count(const BatchShape&) const = 0;
  // Returns a batch's weight in the mean that is an evaluation's loss.
  virtual std::int64_t count_evaluated(const BatchShape& s) const { return count(s); }
  // Returns the loss that the last stage of a pipeline computes, which is a function of the logits.
  virtual Loss stage_loss(Tensor /*sum*/, float /*scale*/) const {
    throw InternalError("stage_loss: not of this objective");
  }
  // Adds the sum of the batch's losses to loss (1) f64; in an evaluation only those that count_evaluated()
  // counts.
  virtual void forward(const Pass&, const Batch&, Tensor loss) = 0;
  // Runs forward(), and adds the gradients of scale * (the sum of the losses) to all gradients.
  virtual void forward_backward(const Pass&, const Batch&, Tensor loss, float scale) = 0;

  // Names of the columns measured in addition to the loss, and their sums since the last call, see
  // ColumnMeans.
  virtual std::vector<std::string> columns() const { return {}; }
  virtual std::vector<double> take_columns() { return {}; }
  // Return the number of sums, and the columns computed from them.
  virtual std::int64_t column_sums() const { return 2 * std::ssize(columns()); }
  virtual Measures measures(const std::vector<double>& sums) const {
    return ColumnMeans::means(columns(), sums);
  }
  // Returns the log-probabilities of the batch's sequences under the policy, or under the reference.
  virtual std::vector<double> logps(const Pass&, const Batch&, bool /*reference*/) {
    throw InternalError("logps: not of this objective");
  }
  // From now on batches contain the reference's log-probabilities (Compared::reference), also on ranks
  // without a reference.
  virtual void reference_is_known() {}
  // Data of all ranks to remember from step to step: every rank calls state() and gets everything.
  virtual std::vector<double> state(Ctx&, Communicator&) const { return {}; }
  virtual void set_state(const std::vector<double>&) {}
};

std::unique_ptr<Objective> make_objective(const ObjectiveConfig&, const ObjectiveParts& = {});

}  // namespace ft
