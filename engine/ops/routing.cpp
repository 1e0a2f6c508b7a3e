#include "engine/ops/routing.h"

#include "engine/ops/checks.h"

namespace ft::op {
namespace {

bool is_matrix(const Tensor& t, std::int64_t rows, std::int64_t cols, DType type) {
  return t.cols() == cols && is_vector(t, rows * cols, type);
}

}  // namespace

void Route::check() const {
  require(is_float(logits) && is_matrix(p, logits.rows(), logits.cols(), DType::f32),
          "route: p is not (T, E) f32");
  require(ids.cols() >= 1 && ids.cols() <= logits.cols() &&
              is_matrix(ids, logits.rows(), ids.cols(), DType::i32) &&
              is_matrix(weights, logits.rows(), ids.cols(), DType::f32),
          "route: weights and ids are not (T, k)");
  require(is_vector_if_there(bias, logits.cols(), DType::f32), "route: bias is not one f32 for an expert");
  require(rule.groups >= 1 && rule.groups <= RouteRule::kMostGroups && logits.cols() % rule.groups == 0 &&
              rule.kept >= 1 && rule.kept <= rule.groups &&
              ids.cols() <= logits.cols() / rule.groups * rule.kept,
          "route: the groups do not hold k experts");
}

void RouteGrad::check() const {
  const std::int64_t tokens = dlogits.rows(), experts = dlogits.cols();
  require(is_float(dlogits) && is_matrix(p, tokens, experts, DType::f32), "route_grad: p is not (T, E) f32");
  require(
      is_matrix(ids, tokens, ids.cols(), DType::i32) && is_matrix(dweights, tokens, ids.cols(), DType::f32),
      "route_grad: dweights and ids are not (T, k)");
  require(is_vector_if_there(slope, experts, DType::f32), "route_grad: slope is not one f32 for an expert");
}
void RouteGrad::check_indices() const {
  require(all_below(ids, dlogits.cols()), "route_grad: an expert beyond their number");
}

void GroupRows::check() const {
  const std::int64_t rows = ids.numel();
  require(is_vector(ids, rows, DType::i32) && is_vector(order, rows, DType::i32) &&
              is_vector(tokens, rows, DType::i32) && is_vector(places, rows, DType::i32),
          "group_rows: order, tokens and places are not one i32 for every choice");
  require(starts.numel() >= 2 && is_vector(starts, starts.numel(), DType::i32),
          "group_rows: starts is not one i32 for every expert, and one more");
}
void GroupRows::check_indices() const {
  require(all_below(ids, starts.numel() - 1), "group_rows: an expert beyond their number");
}

void RouterBalance::check() const {
  const std::int64_t layers = sums.rows(), experts = sums.cols();
  require(is_vector(loss, 1, DType::f64) && is_vector(slope, experts, DType::f32) &&
              is_matrix(sums, layers, experts, DType::f32),
          "router_balance: loss is not f64, or slope or sums not one f32 for every expert");
  require(is_matrix(starts, layers, experts + 1, DType::i32) && choices >= 1,
          "router_balance: starts is not (layers, E + 1) i32");
}

void ScaleRows::check() const {
  require(is_float(y) && alike(y, x), "scale_rows: y and x differ");
  require(is_vector(w, x.rows(), DType::f32), "scale_rows: w is not one f32 for every row");
}

void ScaleRowsGrad::check() const {
  require(is_float(dy) && alike(dx, dy) && alike(dy, x), "scale_rows_grad: dx, dy and x differ");
  require(is_vector(w, x.rows(), DType::f32) && is_vector(dw, x.rows(), DType::f32),
          "scale_rows_grad: w and dw are not one f32 for every row");
}

}  // namespace ft::op
