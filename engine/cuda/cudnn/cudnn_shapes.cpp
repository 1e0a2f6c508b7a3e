#include "engine/cuda/cudnn/cudnn_shapes.h"

namespace ft::cuda {
namespace {

using namespace cudnn_id;

class Builder {
 public:
  Builder(const Cudnn& f, const CudnnShape& s)
      : g(f), s_(s), type_(s.f16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16) {
    if (s.ragged) {
      rows_ = numbers(kRows, s.batch);
      keys_ = numbers(kKeys, s.batch);
    }
    scale = g.scalar(kScale);
    if (s.causal || s.ragged) minus_infinity_ = g.scalar(kMinusInfinity);
  }

  // A tensor's rows for queries (batch, H, rows, D) or keys (batch, KV, keys, D); row: elements from one row
  // to the next.
  CudnnTensor queries(std::int64_t id, std::int64_t row) {
    return given(id, {s_.batch, s_.query_heads, s_.rows, s_.width}, {s_.rows * row, s_.width, row, 1});
  }
  CudnnTensor keys(std::int64_t id, std::int64_t row) {
    return given(id, {s_.batch, s_.key_heads, s_.keys, s_.width}, {s_.keys * row, s_.width, row, 1});
  }
  CudnnTensor turned_keys(std::int64_t id, std::int64_t row) {
    return given(id, {s_.batch, s_.key_heads, s_.width, s_.keys}, {s_.keys * row, s_.width, 1, row});
  }
  CudnnTensor turned_back(const CudnnTensor& k) {
    const CudnnTensor y = g.between({k.dims[0], k.dims[1], k.dims[3], k.dims[2]},
                                    {k.strides[0], k.strides[1], k.strides[3], k.strides[2]}, type_,
                                    s_.ragged ? &offsets_of(kK) : nullptr);
    g.reshape(k, y);
    return y;
  }
  CudnnTensor of_rows(std::int64_t id) {
    return g.given(id, {s_.batch, s_.query_heads, s_.rows, 1}, {s_.query_heads * s_.rows, s_.rows, 1, 1},
                   CUDNN_DATA_FLOAT);
  }

  CudnnTensor apply(cudnnPointwiseMode_t mode, const CudnnTensor& x, const CudnnTensor* b = nullptr,
                    cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const CudnnTensor y = g.between(x.dims, type);
    g.pointwise(mode, x, y, {.b = b});
    return y;
  }
  CudnnTensor sum(const CudnnTensor& x, cudnnReduceTensorOp_t by = CUDNN_REDUCE_TENSOR_ADD) {
    const CudnnTensor y = g.between({s_.batch, s_.query_heads, s_.rows, 1});
    g.reduce(by, x, y);
    return y;
  }
  // c = a b for (rows, D) (D, keys).
  CudnnTensor square(const CudnnTensor& a, const CudnnTensor& b, bool zeros = false) {
    const CudnnTensor c = g.between({s_.batch, s_.query_heads, s_.rows, s_.keys});
    g.matmul(a, b, c, {rows(), keys(), nullptr, zeros && s_.ragged});
    return c;
  }
  // y = a b for (rows, keys) (keys, D).
  void to_rows(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& y) {
    g.matmul(a, b, y, {rows(), nullptr, keys()});
  }
  // y = a^T b for (rows, keys)^T (rows, D); adds up query heads that share a key head.
  void to_keys(const CudnnTensor& a, const CudnnTensor& b, const CudnnTensor& y) {
    const std::int64_t all = s_.query_heads * s_.rows * s_.keys;
    const CudnnTensor t =
        g.between({s_.batch, s_.query_heads, s_.keys, s_.rows}, {all, s_.rows * s_.keys, 1, s_.keys}, type_);
    g.reshape(a, t);
    const CudnnLimits limits{keys(), nullptr, rows()};
    if (s_.query_heads == s_.key_heads) return g.matmul(t, b, y, limits);
    const CudnnTensor each = g.between({s_.batch, s_.query_heads, s_.keys, s_.width}, type_);
    g.matmul(t, b, each, limits);
    g.reduce(CUDNN_REDUCE_TENSOR_ADD, each, y);
  }

  // scale q k^T + bias, with -inf beyond a sequence's end.
  CudnnTensor scores(const CudnnTensor& q, const CudnnTensor& k, bool zeros) {
    CudnnTensor x = apply(CUDNN_POINTWISE_MUL, square(q, k, zeros), &scale);
    if (s_.bias) {
      const std::int64_t head = s_.rows * s_.keys;
      const CudnnTensor bias = g.given(kBias, {1, s_.query_heads, s_.rows, s_.keys},
                                       {s_.query_heads * head, head, s_.keys, 1}, type_);
      x = apply(CUDNN_POINTWISE_ADD, x, &bias);
    }
    if (!s_.ragged) return x;
    const CudnnTensor within_rows = compare(CUDNN_POINTWISE_CMP_LT, index(x, 2, CUDNN_DATA_INT32), rows_),
                      within_keys = compare(CUDNN_POINTWISE_CMP_LT, index(x, 3, CUDNN_DATA_INT32), keys_);
    return select(x, compare(CUDNN_POINTWISE_LOGICAL_AND, within_rows, within_keys));
  }
  // Puts -inf for keys in a query's future, and for keys before its window.
  CudnnTensor masked(CudnnTensor x) {
    if (s_.causal) {
      const CudnnTensor row = index(x, 2), key = index(x, 3);
      x = select(x, compare(CUDNN_POINTWISE_CMP_GE, row, key));
    }
    if (s_.window) {
      const CudnnTensor row = index(x, 2), window = g.scalar(kWindow);
      const CudnnTensor seen_until = apply(CUDNN_POINTWISE_ADD, index(x, 3), &window);
      x = select(x, compare(CUDNN_POINTWISE_CMP_GT, seen_until, row));
    }
    return x;
  }

  cudnnDataType_t type() const { return type_; }
  CudnnGraph g;
  CudnnTensor scale;

 private:
  const CudnnTensor* rows() const { return s_.ragged ? &rows_ : nullptr; }
  const CudnnTensor* keys() const { return s_.ragged ? &keys_ : nullptr; }
  CudnnTensor numbers(std::int64_t id, std::int64_t count) {
    return g.given(id, {count, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_INT32);
  }
  const CudnnTensor& offsets_of(std::int64_t id) {
    CudnnTensor& t = offsets_[static_cast<std::size_t>(id)];
    if (!t.part) t = numbers(kOffset + id, s_.batch + 1);
    return t;
  }
  CudnnTensor given(std::int64_t id, Four dims, Four strides) {
    return g.given(id, dims, strides, type_, s_.ragged ? &offsets_of(id) : nullptr);
  }
  CudnnTensor index(const CudnnTensor& x, int axis, cudnnDataType_t computed = CUDNN_DATA_FLOAT) {
    const CudnnTensor y = g.between(x.dims, CUDNN_DATA_INT32);
    g.pointwise(CUDNN_POINTWISE_GEN_INDEX, x, y, {.axis = axis, .type = computed});
    return y;
  }
  CudnnTensor compare(cudnnPointwiseMode_t mode, const CudnnTensor& a, const CudnnTensor& b) {
    const CudnnTensor y = g.between(a.dims, CUDNN_DATA_BOOLEAN);
    g.pointwise(mode, a, y, {.b = &b, .type = CUDNN_DATA_BOOLEAN});
    return y;
  }
  // x if `seen`, else -inf.
  CudnnTensor select(const CudnnTensor& x, const CudnnTensor& seen) {
    const CudnnTensor y = g.between(x.dims);
    g.pointwise(CUDNN_POINTWISE_BINARY_SELECT, x, y, {.b = &minus_infinity_, .mask = &seen});
    return y;
  }

  const CudnnShape& s_;
  cudnnDataType_t type_;
  CudnnTensor rows_, keys_, minus_infinity_;
  std::array<CudnnTensor, kDv + 1> offsets_;  // by the number of the tensor
};

CudnnGraph forward(const Cudnn& f, const CudnnShape& s) {
  Builder b(f, s);
  const CudnnTensor q = b.queries(kQ, s.q), k = b.turned_keys(kK, s.k), v = b.keys(kV, s.v),
                    y = b.queries(kY, s.y), lse = b.of_rows(kLse);
  const CudnnTensor scores = b.masked(b.scores(q, k, true));
  const CudnnTensor most = b.sum(scores, CUDNN_REDUCE_TENSOR_MAX);
  const CudnnTensor e = b.apply(CUDNN_POINTWISE_EXP, b.apply(CUDNN_POINTWISE_SUB, scores, &most));
  const CudnnTensor total = b.sum(e), log = b.apply(CUDNN_POINTWISE_LOG, total);
  b.g.pointwise(CUDNN_POINTWISE_ADD, most, lse, {.b = &log});
  b.to_rows(b.apply(CUDNN_POINTWISE_DIV, e, &total, b.type()), v, y);
  return std::move(b.g);
}

// p = exp(scores - lse); dv = p^T dy; ds = p (dy v^T - sum(dy y)) scale; dk = ds^T q; dq = ds k.
CudnnGraph backward(const Cudnn& f, const CudnnShape& s) {
  Builder b(f, s);
  const CudnnTensor q = b.queries(kQ, s.q), k = b.turned_keys(kK, s.k), v = b.turned_keys(kV, s.v),
                    y = b.queries(kY, s.y), dy = b.queries(kDy, s.dy), dq = b.queries(kDq, s.dq),
                    dk = b.keys(kDk, s.dk), dv = b.keys(kDv, s.dv), lse = b.of_rows(kLse),
                    sums = b.of_rows(kSums), one = b.g.scalar(kOne);
  b.g.pointwise(CUDNN_POINTWISE_MUL, b.sum(b.apply(CUDNN_POINTWISE_MUL, dy, &y)), sums, {.b = &one});
  const CudnnTensor shifted = b.apply(CUDNN_POINTWISE_SUB, b.scores(q, k, false), &lse);
  const CudnnTensor p = b.apply(CUDNN_POINTWISE_EXP, b.masked(shifted));
  b.to_keys(p, dy, dv);
  const CudnnTensor dp = b.apply(CUDNN_POINTWISE_SUB, b.square(dy, v), &sums);
  const CudnnTensor ds =
      b.apply(CUDNN_POINTWISE_MUL, b.apply(CUDNN_POINTWISE_MUL, dp, &p), &b.scale, b.type());
  b.to_keys(ds, q, dk);
  b.to_rows(ds, b.turned_back(k), dq);
  return std::move(b.g);
}

}  // namespace

CudnnPlan cudnn_plan(const Cudnn& f, const CudnnShape& s, const CudnnDescriptor& device) {
  return (s.gradient ? backward(f, s) : forward(f, s)).plan(device);
}

}  // namespace ft::cuda
