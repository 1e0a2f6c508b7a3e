#include "engine/ops/loss.h"

#include "engine/ops/checks.h"

namespace ft::op {

void CrossEntropy::check() const {
  require(is_float(logits) && logits.cols() > 0, "cross_entropy: logits are not f32, bf16 or f16");
  require(is_vector(loss, logits.rows(), DType::f32), "cross_entropy: loss is not one f32 for every row");
  require(is_vector(targets, logits.rows(), DType::i32),
          "cross_entropy: targets is not one i32 for every row");
  require(0 <= smoothing && smoothing <= 1, "cross_entropy: smoothing is not in [0, 1]");
  require(cap >= 0, "cross_entropy: the cap is below 0");
}
void CrossEntropy::check_indices() const {
  require(all_below(targets, logits.cols()), "cross_entropy: a target beyond the classes");
}

}  // namespace ft::op
