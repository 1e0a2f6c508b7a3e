// Losses of rows of logits.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// Parts of a loss for logits that are only columns [first, first + n) of a row: the largest logit m, the sum
// of exp(x - m), the target's logit (0 if the target is not among these columns), and the sum of all logits.
struct LogitSums {
  static constexpr const char* kName = "logit_sums";
  static constexpr std::int64_t kCount = 4;
  Out y;       // (rows, kCount) f32
  In logits;   // (rows, n)
  In targets;  // (rows) i32, of all classes
  std::int64_t first = 0;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("logits", logits);
    visit("targets", targets);
  }
};

// loss = -log softmax(logits)[target] by row, or with label smoothing e the cross entropy with (1 - e) onehot
// + e / V. dynamic: times the target's probability, which has no gradient (dynamic fine-tuning, Wu et al.
// 2025). With `gradient` the logits are replaced by scale times the loss's gradient; with weights, each row
// by its weight too. If the logits are capped, it is the gradient with respect to SoftCap's input.
struct CrossEntropy {
  static constexpr const char* kName = "cross_entropy";
  Out loss;      // (rows) f32
  InOut logits;  // (rows, V)
  In targets;    // (rows) i32
  float scale = 1;
  float smoothing = 0;   // e, in [0, 1]
  bool dynamic = false;  // see math::dynamic_weight
  bool gradient = false;
  float cap = 0;          // of the logits; 0: none
  In weights = Tensor{};  // (rows) f32; empty: all are 1
  // LogitSums of all columns, for logits that are columns [first, first + n) of rows of `classes`: all rows
  // of the first part, then all rows of the next. Empty: the logits have all columns.
  In sums = Tensor{};  // (parts * rows, LogitSums::kCount) f32
  std::int64_t first = 0, classes = 0;

  void check() const;
  void check_indices() const;
  void operands(auto&& visit) const {
    visit("loss", loss);
    if (gradient)
      visit("logits' gradient", logits);
    else
      visit("logits", In(logits));
    visit("targets", targets);
    visit("weights", weights);
    visit("sums", sums);
  }
};

// Distillation: the loss of a student's logits, by row, is divergence D + cross_entropy times -log
// softmax(logits)[target]. p = softmax(logits / T), q = softmax(teacher / T), T the temperature; D is, by
// beta,
//   0: KL(q || p);  1: KL(p || q);  else beta KL(q || m) + (1 - beta) KL(p || m), m = (1 - beta) p + beta q,
// the generalized Jensen-Shannon divergence (Agarwal et al. 2024). With `gradient` the logits are replaced by
// scale times the loss's gradient. If the logits are capped, it is the gradient with respect to SoftCap's
// input.
struct Divergence {
  static constexpr const char* kName = "divergence";
  Out loss;      // (rows) f32
  InOut logits;  // (rows, V)
  In teacher;    // (rows, V)
  In targets;    // (rows) i32
  float beta = 0.5f;
  float temperature = 1;
  float divergence = 1, cross_entropy = 0;  // weights
  float scale = 1;
  bool gradient = false;
  float cap = 0;  // of the logits; 0: none

  void check() const;
  void check_indices() const;
  void operands(auto&& visit) const {
    visit("loss", loss);
    if (gradient)
      visit("logits' gradient", logits);
    else
      visit("logits", In(logits));
    visit("teacher", teacher);
    visit("targets", targets);
  }
};

// Statistics of rows of logits: the entropy of p = softmax(logits); the mean logit; 1 if the target has the
// largest logit (among equal ones the first counts), else 0; ln(sum of p^2).
struct LogitStatistics {
  static constexpr const char* kName = "logit_statistics";
  static constexpr std::int64_t kCount = 4;
  Out y;       // (rows, kCount) f32
  In logits;   // (rows, V)
  In targets;  // (rows) i32

  void check() const;
  void check_indices() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("logits", logits);
    visit("targets", targets);
  }
};

}  // namespace ft::op
