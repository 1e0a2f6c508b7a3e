// Dropout's masks in attention: every decision of every kernel is the one of ft::Random.
#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

constexpr Random kRandom{0x123456789abcdefull};
const std::vector<std::int32_t> kStarts{0, 3, 66};  // a sequence of 3 rows, one of 63

bool kept(std::int64_t row, std::int64_t head, std::int64_t heads, std::int64_t key, float dropout) {
  const auto at = static_cast<std::uint64_t>(row * heads + head) << 32;
  const auto n = static_cast<std::uint64_t>(key);
  return DropRule(dropout).keeps(kRandom.eight_at(at | n / 8), n % 8);
}

std::int64_t first_of(std::int64_t row) { return row < kStarts[1] ? 0 : kStarts[1]; }
std::int64_t length_of(std::int64_t row) { return row < kStarts[1] ? kStarts[1] : kStarts[2] - kStarts[1]; }

// Returns a matrix in which, in each head, column n of a sequence's n-th row is 1.
Matrix one_hot(std::int64_t cols, std::int64_t width, DType type) {
  Matrix m(kStarts.back(), cols, type);
  for (std::int64_t row = 0; row < kStarts.back(); ++row)
    for (std::int64_t c = 0; c < cols; ++c) m.set(row, c, c % width == row - first_of(row) ? 1 : 0);
  return m;
}
Matrix all_equal(std::int64_t cols, DType type, double v) {
  Matrix m(kStarts.back(), cols, type);
  m.assign(std::vector<double>(m.size(), v));
  return m;
}

// Finds the kept pairs from results. With queries of 0 all keys of a sequence have the same probability p.
// Let u = p / (1 - dropout). Then
//  y is u in the columns of the kept keys, else 0, if the values are one-hot;
//  dv is u in the columns of the queries that keep the key, else 0, if dy is one-hot;
//  dq is scale D u (kept - the share of kept keys), where D is the width of a head, if the keys are one-hot
//  and values and dy are 1.
class Masks {
 public:
  Masks(DType type, Heads heads, float dropout)
      : heads_(heads),
        dropout_(dropout),
        y_(all_equal(cols(), type, 0)),
        dv_(all_equal(cols(), type, 0)),
        dq_(all_equal(cols(), type, 0)) {
    auto ops = make_cuda_ops(0, kSmall);
    const auto put = [&](const Matrix& m) { return OnGpu(*ops, m, 0); };
    const OnGpu q = put(y_), hot = put(one_hot(cols(), heads.width, type)),
                ones = put(all_equal(cols(), type, 1)), y = put(y_), dq = put(y_), dk = put(y_), dv = put(y_),
                lse = put(Matrix(heads.query, kStarts.back(), DType::f32));
    const auto pass = [&](const OnGpu& k, const OnGpu& v, const OnGpu& dy) {
      const Mask mask{kStarts, false};
      const Scores scores{kScale, {}, dropout, kRandom};
      ops->run(op::Attention{.y = y.tensor,
                             .lse = lse.tensor,
                             .q = q.tensor,
                             .k = k.tensor,
                             .v = v.tensor,
                             .heads = heads,
                             .mask = mask,
                             .scores = scores});
      ops->run(op::AttentionGrad{.dq = dq.tensor,
                                 .dk = dk.tensor,
                                 .dv = dv.tensor,
                                 .dy = dy.tensor,
                                 .y = y.tensor,
                                 .lse = lse.tensor,
                                 .q = q.tensor,
                                 .k = k.tensor,
                                 .v = v.tensor,
                                 .heads = heads,
                                 .mask = mask,
                                 .scores = scores});
    };
    pass(ones, hot, hot);
    y.download(y_);
    dv.download(dv_);
    pass(hot, ones, ones);
    dq.download(dq_);
  }

  // Counts the elements that differ from ft::Random's decisions.
  int wrong() const {
    int n = 0;
    for (std::int64_t row = 0; row < kStarts.back(); ++row)
      for (std::int64_t h = 0; h < heads_.query; ++h) n += wrong_of(row, h);
    return n;
  }

 private:
  static constexpr float kScale = 0.5f;
  std::int64_t cols() const { return heads_.query * heads_.width; }
  int wrong_of(std::int64_t row, std::int64_t h) const {
    const std::int64_t first = first_of(row), keys = length_of(row);
    const double unit = 1 / (double(keys) * (1 - double(dropout_)));
    double share = 0;
    for (std::int64_t n = 0; n < keys; ++n) share += kept(row, h, heads_.query, n, dropout_) / double(keys);
    int wrong = 0;
    const auto expect = [&](double got, double want, double of) {
      wrong += std::abs(got - want) > 0.02 * of;
    };
    for (std::int64_t n = 0; n < keys; ++n) {
      const double keep = kept(row, h, heads_.query, n, dropout_), all = kScale * double(heads_.width) * unit;
      expect(y_.get(row, h * heads_.width + n), unit * keep, unit);
      expect(dv_.get(first + n, h * heads_.width + row - first), unit * keep, unit);
      expect(dq_.get(row, h * heads_.width + n), all * (keep - share), all);
    }
    return wrong;
  }

  Heads heads_;
  float dropout_;
  Matrix y_, dv_, dq_;
};

TEST(CudaAttention, DropoutFollowsItsRandomNumbers) {
  for (const int capability : capabilities()) {
    SCOPED_TRACE(str("capability ", capability));
    set_capability(capability);
    EXPECT_EQ(Masks(DType::f32, {3, 3, 64}, 0.3f).wrong(), 0);
    EXPECT_EQ(Masks(DType::f16, {3, 3, 64}, 0.3f).wrong(), 0);
    EXPECT_EQ(Masks(DType::bf16, {2, 2, 100}, 0.1f).wrong(), 0);
  }
  set_capability(8);
}

}  // namespace
}  // namespace ft::cuda
