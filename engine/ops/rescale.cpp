#include "engine/ops/rescale.h"

#include "engine/ops/checks.h"

namespace ft::op {

void Magnitudes::check() const {
  const std::int64_t n = b.rows();
  for (const Tensor& t : {Tensor(scale), Tensor(per_norm), Tensor(magnitude), Tensor(squares)})
    require(is_vector(t, n, DType::f32), "magnitudes: a vector is not one f32 for every row of b");
  require(is_float(b), "magnitudes: b is not f32, bf16 or f16");
  require(p.dtype == DType::f32 && p.rows() == b.cols() && p.cols() == n, "magnitudes: p is not (R, n) f32");
}

void ScaleColumns::check() const {
  require(is_float(y) && alike(y, x), "scale_columns: y and x differ");
  require(is_vector(scale, y.cols(), DType::f32), "scale_columns: scale is not one f32 for every column");
  require(is_vector_if_there(bias, y.cols(), y.dtype), "scale_columns: bias is not one for every column");
}

void ColumnDots::check() const {
  require(is_float(a) && alike(a, b), "column_dots: a and b differ");
  require(is_vector(y, a.cols(), DType::f32) && is_vector(scale, a.cols(), DType::f32),
          "column_dots: y or scale is not one f32 for every column");
}

}  // namespace ft::op
