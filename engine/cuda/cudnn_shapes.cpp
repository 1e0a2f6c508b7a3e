#include "engine/cuda/cudnn_shapes.h"

namespace ft::cuda {
namespace {

using namespace cudnn_id;

class Builder {
 public:
  Builder(const Cudnn& f, const CudnnShape& s) : g(f), s_(s) {}

  CudnnTensor heads(std::int64_t id, std::int64_t count, std::int64_t row) {
    return g.given(id, {1, count, s_.rows, s_.width}, {s_.rows * row, s_.width, row, 1}, CUDNN_DATA_BFLOAT16);
  }
  CudnnTensor transposed(std::int64_t id, std::int64_t count, std::int64_t row) {
    return g.given(id, {1, count, s_.width, s_.rows}, {s_.rows * row, s_.width, 1, row}, CUDNN_DATA_BFLOAT16);
  }
  CudnnTensor of_rows(std::int64_t id, std::int64_t head) {
    return g.given(id, {1, s_.query_heads, s_.rows, 1}, {s_.query_heads * head, head, 1, 1},
                   CUDNN_DATA_FLOAT);
  }
  CudnnTensor apply(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor* b = nullptr,
                    cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const CudnnTensor y = g.between(x.dims, type);
    g.pointwise(mode, x, y, {.b = b});
    return y;
  }
  CudnnTensor sum(const CudnnTensor& x, cudnnReduceTensorOp_t by = CUDNN_REDUCE_TENSOR_ADD) {
    const CudnnTensor y = g.between({1, s_.query_heads, s_.rows, 1});
    g.reduce(by, x, y);
    return y;
  }
  // Keys in a query's future become -inf.
  CudnnTensor masked(const CudnnTensor& x) {
    if (!s_.causal) return x;
    const CudnnTensor row = g.between(x.dims, CUDNN_DATA_INT32), col = g.between(x.dims, CUDNN_DATA_INT32),
                      seen = g.between(x.dims, CUDNN_DATA_BOOLEAN), y = g.between(x.dims),
                      infinity = g.scalar(kMinusInfinity);
    g.pointwise(CUDNN_POINTWISE_GEN_INDEX, x, row, {.axis = 2});
    g.pointwise(CUDNN_POINTWISE_GEN_INDEX, x, col, {.axis = 3});
    g.pointwise(CUDNN_POINTWISE_CMP_GE, row, seen, {.b = &col, .type = CUDNN_DATA_BOOLEAN});
    g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, y, {.b = &infinity, .mask = &seen});
    return y;
  }
  CudnnTensor product(const CudnnTensor& a, const CudnnTensor& b) {
    const CudnnTensor c = g.between({1, s_.query_heads, s_.rows, s_.rows});
    g.matmul(a, b, c);
    return c;
  }

  CudnnGraph g;

 private:
  const CudnnShape& s_;
};

CudnnGraph forward(const Cudnn& f, const CudnnShape& s) {
  Builder b(f, s);
  const CudnnTensor q = b.heads(kQ, s.query_heads, s.q), k = b.transposed(kK, s.key_heads, s.k),
                    v = b.heads(kV, s.key_heads, s.v), y = b.heads(kY, s.query_heads, s.y),
                    lse = b.of_rows(kLse, s.lse_stride), scale = b.g.scalar(kScale);
  const CudnnTensor scores = b.masked(b.apply(CUDNN_POINTWISE_MUL, b.product(q, k), &scale));
  const CudnnTensor most = b.sum(scores, CUDNN_REDUCE_TENSOR_MAX);
  const CudnnTensor e = b.apply(CUDNN_POINTWISE_EXP, b.apply(CUDNN_POINTWISE_SUB, scores, &most));
  const CudnnTensor total = b.sum(e), log = b.apply(CUDNN_POINTWISE_LOG, total);
  b.g.pointwise(CUDNN_POINTWISE_ADD, most, lse, {.b = &log});
  const CudnnTensor p = b.apply(CUDNN_POINTWISE_DIV, e, &total, CUDNN_DATA_BFLOAT16);
  b.g.matmul(p, v, y);
  return std::move(b.g);
}

// p = exp(scores - lse); dv = p^T dy; ds = p (dy v^T - sum(dy y)) scale; dk = ds^T q; dq = ds k. Query heads
// that share a key head are added up.
CudnnGraph backward(const Cudnn& f, const CudnnShape& s) {
  Builder b(f, s);
  constexpr auto kBf16 = CUDNN_DATA_BFLOAT16;
  const CudnnTensor q = b.heads(kQ, s.query_heads, s.q), k = b.transposed(kK, s.key_heads, s.k),
                    v = b.transposed(kV, s.key_heads, s.v), y = b.heads(kY, s.query_heads, s.y),
                    dy = b.heads(kDy, s.query_heads, s.dy), dq = b.heads(kDq, s.query_heads, s.dq),
                    dk = b.heads(kDk, s.key_heads, s.dk), dv = b.heads(kDv, s.key_heads, s.dv),
                    lse = b.of_rows(kLse, s.lse_stride), sums = b.of_rows(kSums, s.rows),
                    scale = b.g.scalar(kScale), one = b.g.scalar(kOne);
  const Four square{1, s.query_heads, s.rows, s.rows},
      turned{s.query_heads * s.rows * s.rows, s.rows * s.rows, 1, s.rows};
  b.g.pointwise(CUDNN_POINTWISE_MUL, b.sum(b.apply(CUDNN_POINTWISE_MUL, dy, &y)), sums, {.b = &one});
  const CudnnTensor scores = b.apply(CUDNN_POINTWISE_MUL, b.product(q, k), &scale);
  const CudnnTensor p = b.apply(CUDNN_POINTWISE_EXP, b.masked(b.apply(CUDNN_POINTWISE_SUB, scores, &lse)));
  const auto to_keys = [&](const CudnnTensor& x, const CudnnTensor& rows, const CudnnTensor& out) {
    const CudnnTensor t = b.g.between(square, turned, kBf16);
    b.g.reshape(x, t);
    if (s.query_heads == s.key_heads) return b.g.matmul(t, rows, out);
    const CudnnTensor each = b.g.between({1, s.query_heads, s.rows, s.width}, kBf16);
    b.g.matmul(t, rows, each);
    b.g.reduce(CUDNN_REDUCE_TENSOR_ADD, each, out);
  };
  to_keys(p, dy, dv);
  const CudnnTensor dp = b.apply(CUDNN_POINTWISE_SUB, b.product(dy, v), &sums);
  const CudnnTensor ds =
      b.apply(CUDNN_POINTWISE_MUL, b.apply(CUDNN_POINTWISE_MUL, dp, &p), &scale, CUDNN_DATA_BFLOAT16);
  to_keys(ds, q, dk);
  const CudnnTensor rows_of_k =
      b.g.between({1, s.key_heads, s.rows, s.width}, {s.rows * s.k, s.width, s.k, 1}, kBf16);
  b.g.reshape(k, rows_of_k);
  b.g.matmul(ds, rows_of_k, dq);
  return std::move(b.g);
}

}  // namespace

CudnnPlan cudnn_plan(const Cudnn& f, const CudnnShape& s, const CudnnDescriptor& device) {
  return (s.gradient ? backward(f, s) : forward(f, s)).plan(device);
}

}  // namespace ft::cuda
