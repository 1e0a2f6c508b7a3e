// Sinks are a further score in a head's softmax: values and gradients for every target, against f64, after
// attention to tokens of the pass and of a cache.
#include <cmath>

#include "tests/engine/cpu/leaf_fixture.h"

namespace ft::cpu {
namespace {

const std::vector<Size> kRowsAndWidths{{1, 1}, {3, 5}, {2, 16}, {5, 63}, {150, 40}};

// Returns lse of the head that has a column: column / width.
double lse_of(const Matrix& lse, std::int64_t row, std::int64_t column, std::int64_t width) {
  return lse.get(column / width, row);
}

TEST(AttentionSinks, AreOneMoreScore) {
  for (const std::int64_t heads : {1, 3})
    each_trial(kRowsAndWidths, [&](const Trial& s) {
      Matrix &y = s.matrix(s.rows, heads * s.cols, s.type).randomize(1),
             &lse = s.matrix(heads, s.rows, DType::f32).randomize(2, 30), &sinks = s.vector(heads, s.type, 3);
      std::vector<double> want_y, want_lse;
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t r = 0; r < s.rows; ++r)
          want_lse.push_back(std::log(std::exp(lse.get(h, r)) + std::exp(sinks.get(0, h))));
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t c = 0; c < heads * s.cols; ++c)
          want_y.push_back(y.get(r, c) /
                           (1 + std::exp(sinks.get(0, c / s.cols) - lse_of(lse, r, c, s.cols))));
      s.ops.run(op::AttentionSinks{.y = y, .lse = lse, .sinks = sinks});
      EXPECT_LT(nmse(y.values(), want_y), s.tolerance());
      EXPECT_LT(nmse(lse.values(), want_lse), 1e-12);
    });
}

TEST(AttentionSinks, GradientIsAddedToWhatIsThere) {
  for (const std::int64_t heads : {1, 3})
    each_trial(kRowsAndWidths, [&](const Trial& s) {
      Matrix &y = s.matrix(s.rows, heads * s.cols, s.type).randomize(1),
             &dy = s.matrix(s.rows, heads * s.cols, s.type).randomize(4),
             &lse = s.matrix(heads, s.rows, DType::f32).randomize(2), &sinks = s.vector(heads, s.type, 3),
             &dsinks = s.vector(heads, DType::f32, 5);
      std::vector<double> want = dsinks.values();
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t c = 0; c < heads * s.cols; ++c)
          want[std::size_t(c / s.cols)] -=
              std::exp(sinks.get(0, c / s.cols) - lse_of(lse, r, c, s.cols)) * dy.get(r, c) * y.get(r, c);
      s.ops.run(op::AttentionSinksGrad{.dsinks = dsinks, .dy = dy, .y = y, .lse = lse, .sinks = sinks});
      EXPECT_LT(nmse(dsinks.values(), want), 1e-10);
    });
}

// Scores far above and below the sink's: the sink takes all, or nothing.
TEST(AttentionSinks, ExtremesStayFinite) {
  for (const NamedKernels& named : all_kernels()) {
    CpuOps ops(1, named.kernels);
    Matrix y(2, 1, DType::f32), lse(1, 2, DType::f32), sinks(1, 1, DType::f32);
    y.assign({3, 3});
    lse.assign({-1e4, 1e4});
    sinks.assign({5});
    ops.run(op::AttentionSinks{.y = y, .lse = lse, .sinks = sinks});
    EXPECT_EQ(y.values(), (std::vector<double>{0, 3})) << named.name;
    EXPECT_EQ(lse.values(), (std::vector<double>{5, 1e4})) << named.name;
  }
}

TEST(AttentionSinks, DenominatorsOfACacheAreThoseOfAPass) {
  for (const NamedKernels& named : all_kernels())
    for (const DType type : {DType::f32, DType::bf16})
      for (const std::int64_t window : {0, 20})
        for (const float cap : {0.0f, 2.0f}) {
          SCOPED_TRACE(str(named.name, " ", name_of(type), " window ", window, " cap ", cap));
          CpuOps ops(2, named.kernels);
          const Heads heads{4, 2, 24};
          constexpr std::int64_t kKeys = 90;
          Matrix q(kKeys, 96, type), k(kKeys, 48, type), v(kKeys, 48, type), y(kKeys, 96, type),
              again(kKeys, 96, type), lse(4, kKeys, DType::f32), of_ranges(4, kKeys, DType::f32),
              first(1, kKeys, DType::i32), count(1, kKeys, DType::i32);
          q.randomize(1);
          k.randomize(2);
          v.randomize(3);
          for (std::int64_t i = 0; i < kKeys; ++i) {
            first.set(0, i, 0);
            count.set(0, i, double(i + 1));
          }
          const std::vector<std::int32_t> starts{0, kKeys};
          const Scores scores{.scale = 0.3f, .cap = cap};
          ops.run(op::Attention{.y = y,
                                .lse = lse,
                                .q = q,
                                .k = k,
                                .v = v,
                                .heads = heads,
                                .mask = {.starts = starts, .window = window},
                                .scores = scores});
          const auto vector = [](const Matrix& m) { return m.tensor.view({m.tensor.numel()}); };
          ops.run(op::AttentionRanges{.y = again,
                                      .lse = of_ranges,
                                      .q = q,
                                      .k = k,
                                      .v = v,
                                      .heads = heads,
                                      .ranges = {vector(first), vector(count), window},
                                      .scores = scores});
          EXPECT_LT(nmse(again.values(), y.values()), type == DType::f32 ? 1e-12 : 4e-5);
          EXPECT_LT(nmse(of_ranges.values(), lse.values()), type == DType::f32 ? 1e-12 : 1e-6);
        }
}

}  // namespace
}  // namespace ft::cpu
