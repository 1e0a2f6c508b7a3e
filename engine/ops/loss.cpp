#include "engine/ops/loss.h"

#include <algorithm>

#include "engine/ops/checks.h"

namespace ft::op {

void LogitSums::check() const {
  require(is_float(logits) && logits.cols() > 0, "logit_sums: logits are not f32, bf16 or f16");
  require(y.dtype == DType::f32 && y.shape == Shape{logits.rows(), kCount},
          "logit_sums: y is not four f32 for every row");
  require(is_vector(targets, logits.rows(), DType::i32), "logit_sums: targets is not one i32 for every row");
  require(first >= 0, "logit_sums: columns before the first");
}

void CrossEntropy::check() const {
  require(is_float(logits) && logits.cols() > 0, "cross_entropy: logits are not f32, bf16 or f16");
  require(is_vector(loss, logits.rows(), DType::f32), "cross_entropy: loss is not one f32 for every row");
  require(is_vector(targets, logits.rows(), DType::i32),
          "cross_entropy: targets is not one i32 for every row");
  require(is_vector_if_there(weights, logits.rows(), DType::f32),
          "cross_entropy: weights is not one f32 for every row");
  require(0 <= smoothing && smoothing <= 1, "cross_entropy: smoothing is not in [0, 1]");
  require(cap >= 0, "cross_entropy: the cap is below 0");
  if (!sums) return;
  require(sums.dtype == DType::f32 && sums.dense() && sums.cols() == LogitSums::kCount &&
              sums.rows() % std::max<std::int64_t>(1, logits.rows()) == 0,
          "cross_entropy: sums is not four f32 for every row of some parts");
  require(first >= 0 && first + logits.cols() <= classes, "cross_entropy: columns beyond the classes");
}
void CrossEntropy::check_indices() const {
  require(all_below(targets, sums ? classes : logits.cols()), "cross_entropy: a target beyond the classes");
}

void Divergence::check() const {
  require(is_float(logits) && logits.cols() > 0, "divergence: logits are not f32, bf16 or f16");
  require(teacher.dtype == logits.dtype && teacher.shape == logits.shape,
          "divergence: teacher is not as the logits are");
  require(is_vector(loss, logits.rows(), DType::f32), "divergence: loss is not one f32 for every row");
  require(is_vector(targets, logits.rows(), DType::i32), "divergence: targets is not one i32 for every row");
  require(0 <= beta && beta <= 1 && temperature > 0, "divergence: no such beta or temperature");
}
void Divergence::check_indices() const {
  require(all_below(targets, logits.cols()), "divergence: a target beyond the classes");
}

void LogitStatistics::check() const {
  require(is_float(logits) && logits.cols() > 0, "logit_statistics: logits are not f32, bf16 or f16");
  require(y.dtype == DType::f32 && y.shape == Shape{logits.rows(), kCount},
          "logit_statistics: y is not four f32 for every row");
  require(is_vector(targets, logits.rows(), DType::i32),
          "logit_statistics: targets is not one i32 for every row");
}
void LogitStatistics::check_indices() const {
  require(all_below(targets, logits.cols()), "logit_statistics: a target beyond the classes");
}

}  // namespace ft::op
