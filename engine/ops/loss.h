// The loss of rows of logits.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// From logits that are columns [first, first + n) of rows of more classes: what the loss of the whole rows
// takes of them: the largest, the sum of exp(x - it), the target's, and the sum of all. The target's is 0
// where it is another column.
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

// loss = -log softmax(logits)[target] by row, or with label smoothing e against (1 - e) onehot + e / V. With
// `gradient` the logits become scale times its gradient, in place; a row's times its weight, where there are
// weights, and that of what SoftCap made them of where they are capped.
struct CrossEntropy {
  static constexpr const char* kName = "cross_entropy";
  Out loss;      // (rows) f32
  InOut logits;  // (rows, V)
  In targets;    // (rows) i32
  float scale = 1;
  float smoothing = 0;  // e, in [0, 1]
  bool gradient = false;
  float cap = 0;          // of the logits; 0: they are not capped
  In weights = Tensor{};  // (rows) f32; empty: all are 1
  // Where the logits are columns [first, first + n) of rows of `classes`: the LogitSums of all columns, those
  // of one part's rows after another's.
  In sums = Tensor{};  // (parts * rows, LogitSums::kCount) f32; empty: they are all the columns
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

// What a student's logits are to learn from a teacher's: by row, divergence D + cross_entropy times
// -log softmax(logits)[target]. p = softmax(logits / T), q = softmax(teacher / T), T the temperature; D is,
// by beta,
//   0: KL(q || p);  1: KL(p || q);  else beta KL(q || m) + (1 - beta) KL(p || m), m = (1 - beta) p + beta q,
// the generalized Jensen-Shannon divergence (Agarwal et al. 2024). With `gradient` the logits become scale
// times the gradient of that, in place; of what SoftCap made them of where they are capped.
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
  float cap = 0;  // of the logits; 0: they are not capped

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

// What rows of logits show beside their loss: the entropy of p = softmax(logits), the mean logit, 1 where the
// target has the largest logit (of equal ones the first) else 0, and ln(sum of p^2).
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
