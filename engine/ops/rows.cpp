#include "engine/ops/rows.h"

#include "engine/ops/checks.h"

namespace ft::op {

void Embedding::check() const {
  require(is_float(y) && y.dtype == table.dtype && y.cols() == table.cols(), "embedding: y and table differ");
  require(is_vector(ids, y.rows(), DType::i32), "embedding: ids is not one i32 for every row");
}
void Embedding::check_indices() const {
  const std::int32_t* p = ids.as<std::int32_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    require(p[i] < table.rows(), "embedding: an id beyond the table");
}

void EmbeddingGrad::check() const {
  require(is_float(dy) && dtable.dtype == DType::f32 && dtable.cols() == dy.cols(),
          "embedding_grad: dtable is not (V, C) f32");
  require(is_vector(ids, dy.rows(), DType::i32), "embedding_grad: ids is not one i32 for every row");
}
void EmbeddingGrad::check_indices() const {
  const std::int32_t* p = ids.as<std::int32_t>();
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    require(p[i] < dtable.rows(), "embedding_grad: an id beyond the table");
}

void GatherRows::check() const {
  require(y.dtype == x.dtype && y.cols() == x.cols(), "gather_rows: y and x differ in type or columns");
  require(is_vector(rows, y.rows(), DType::i32), "gather_rows: rows is not one i32 for every row of y");
}
void GatherRows::check_indices() const { require(all_below(rows, x.rows()), "gather_rows: a row beyond x"); }

void ScatterRows::check() const {
  require(y.dtype == x.dtype && y.cols() == x.cols(), "scatter_rows: y and x differ in type or columns");
  require(is_vector(rows, x.rows(), DType::i32), "scatter_rows: rows is not one i32 for every row of x");
}
void ScatterRows::check_indices() const {
  require(all_below(rows, y.rows()), "scatter_rows: a row beyond y");
}

void GatherColumns::check() const {
  require(is_float(y) && y.dtype == x.dtype && y.rows() == x.rows(),
          "gather_columns: y and x differ in type or rows");
  require(is_vector(columns, y.cols(), DType::i32), "gather_columns: columns is not one i32 for each of y");
}
void GatherColumns::check_indices() const {
  require(all_below(columns, x.cols()), "gather_columns: a column beyond x");
}

void GatherSum::check() const {
  require(is_float(y) && y.dtype == x.dtype && y.cols() == x.cols(), "gather_sum: y and x differ");
  require(rows.cols() >= 1 && is_vector(rows, y.rows() * rows.cols(), DType::i32) && rows.rows() == y.rows(),
          "gather_sum: rows is not (rows of y, k) i32");
  require(!c || alike(c, y), "gather_sum: c and y differ");
}
void GatherSum::check_indices() const { require(all_below(rows, x.rows()), "gather_sum: a row beyond x"); }

namespace {

bool are_places(const Tensor& at) { return at.dtype == DType::i32 && at.rows() == 2 && at.dense(); }
bool are_within(const Tensor& at, const Tensor& matrix) {
  return all_below(at.slice(0, 1), matrix.rows()) && all_below(at.slice(1, 2), matrix.cols());
}

}  // namespace

void ScatterElements::check() const {
  require(is_float(y) && is_vector(x, at.cols(), y.dtype), "scatter_elements: x is not (count) of y's type");
  require(are_places(at), "scatter_elements: at is not (2, count) i32");
}
void ScatterElements::check_indices() const {
  require(are_within(at, y), "scatter_elements: a place beyond y");
}

void ScatterElementsGrad::check() const {
  require(is_vector(dx, at.cols(), DType::f32) && dy.dtype == DType::f32,
          "scatter_elements_grad: dx is not (count) f32, or dy not f32");
  require(are_places(at), "scatter_elements_grad: at is not (2, count) i32");
}
void ScatterElementsGrad::check_indices() const {
  require(are_within(at, dy), "scatter_elements_grad: a place beyond dy");
}

void FoldColumns::check() const {
  require(is_float(y) && y.dtype == x.dtype && y.rows() == x.rows(),
          "fold_columns: y and x differ in type or rows");
  require(y.cols() >= 1 && first >= 0, "fold_columns: y has no columns, or first is negative");
}

void FoldColumnsGrad::check() const {
  require(is_float(dy) && (dx.dtype == dy.dtype || dx.dtype == DType::f32) && dx.rows() == dy.rows(),
          "fold_columns_grad: dx and dy differ in rows, or dx is neither of dy's type nor f32");
  require(dy.cols() >= 1 && first >= 0, "fold_columns_grad: dy has no columns, or first is negative");
}

void RepeatRows::check() const {
  require(is_float(y) && y.dtype == x.dtype && y.cols() == x.cols(), "repeat_rows: y and x differ");
  require(x.rows() == 0 ? y.rows() == 0 : y.rows() % x.rows() == 0,
          "repeat_rows: y does not have every row of x equally often");
}

void RepeatRowsGrad::check() const {
  require(is_float(dy) && dx.dtype == dy.dtype && dx.cols() == dy.cols(),
          "repeat_rows_grad: dx and dy differ");
  require(dx.rows() == 0 ? dy.rows() == 0 : dy.rows() % dx.rows() == 0,
          "repeat_rows_grad: dy does not have equally many rows for each of dx");
}

void Transpose::check() const {
  require(is_float(y) && y.dtype == x.dtype && y.rows() == x.cols() && y.cols() == x.rows(),
          "transpose: y is not x turned");
}

}  // namespace ft::op
