#include "engine/ops/norms.h"

#include "engine/ops/checks.h"

namespace ft::op {
namespace {

void check_rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w) {
  require(is_float(x) && alike(y, x), "rms_norm: y and x differ");
  require(is_vector(w, x.cols(), x.dtype), "rms_norm: w is not one element for every column");
  require(is_vector(rstd, x.rows(), DType::f32), "rms_norm: rstd is not one f32 for every row");
}

void check_layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                      const Tensor& w) {
  require(is_float(x) && alike(y, x), "layer_norm: y and x differ");
  require(is_vector_if_there(w, x.cols(), x.dtype), "layer_norm: w is not one element for every column");
  require(is_vector(mean, x.rows(), DType::f32) && is_vector(rstd, x.rows(), DType::f32),
          "layer_norm: mean or rstd is not one f32 for every row");
}

}  // namespace

void RmsNorm::check() const { check_rms_norm(y, rstd, x, w); }

void RmsNormGrad::check() const {
  check_rms_norm(dy, rstd, x, w);
  require(!dx || alike(dx, x), "rms_norm_grad: dx and x differ");
  require(is_vector_if_there(dw, x.cols(), DType::f32), "rms_norm_grad: dw is not one f32 for every column");
}

void LayerNorm::check() const {
  check_layer_norm(y, mean, rstd, x, w);
  require(is_vector_if_there(b, x.cols(), x.dtype), "layer_norm: b is not one element for every column");
}

void LayerNormGrad::check() const {
  check_layer_norm(dy, mean, rstd, x, w);
  require(!dx || alike(dx, x), "layer_norm_grad: dx and x differ");
  require(is_vector_if_there(dw, x.cols(), DType::f32) && is_vector_if_there(db, x.cols(), DType::f32),
          "layer_norm_grad: dw or db is not one f32 for every column");
}

}  // namespace ft::op
