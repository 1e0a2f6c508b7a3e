// Mixtures of experts: routes, sorted rows and their sums of the CUDA backend against the CPU's.
#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

// There are few experts; tokens may outnumber the threads of a block.
const std::vector<Size> kRoutes{{1, 1}, {3, 5}, {79, 17}, {300, 6}};

template <class Test>
void each_route(Test run) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const Size size : kRoutes) {
      SCOPED_TRACE(str(name_of(type), " ", size.rows, " x ", size.cols));
      Trial t{type, size.rows, size.cols};
      run(t, std::min<std::int64_t>(3, size.cols));
    }
}

const RouteRule kRules[] = {{},
                            {.normalised = true},
                            {.sigmoid = true, .normalised = true, .scale = 2.5f},
                            {.sigmoid = true, .groups = 2, .kept = 1, .best = 2}};

TEST(CudaRouting, Route) {
  for (const RouteRule& rule : kRules)
    each_route([&](Trial& t, std::int64_t k) {
      if (t.cols % rule.groups != 0 || k > t.cols / rule.groups * rule.kept) return;
      t.matrix(t.rows, k, DType::f32);
      t.matrix(t.rows, k, DType::i32);
      t.matrix(t.rows, t.cols, DType::f32);
      t.matrix(4);
      t.vector(t.cols, DType::f32).randomize(6);
      t.expect_same(
          [&](Ops& ops, const Tensors& x) {
            ops.run(op::Route{.weights = x[0],
                              .ids = x[1],
                              .p = x[2],
                              .logits = x[3],
                              .bias = rule.sigmoid ? x[4] : Tensor{},
                              .rule = rule});
          },
          1e-12);
    });
}

TEST(CudaRouting, RouteGrad) {
  for (const RouteRule& rule : kRules)
    each_route([&](Trial& t, std::int64_t k) {
      t.matrix(1);
      t.matrix(t.rows, k, DType::f32).randomize(2);
      Matrix& ids = t.matrix(t.rows, k, DType::i32);  // different ids in each row
      for (std::int64_t r = 0; r < t.rows; ++r)
        for (std::int64_t j = 0; j < k; ++j) ids.set(r, j, double((r + 2 * j) % t.cols));
      Matrix& p = t.matrix(t.rows, t.cols, DType::f32);
      for (std::int64_t r = 0; r < t.rows; ++r)
        for (std::int64_t e = 0; e < t.cols; ++e) p.set(r, e, 1 / double(1 + (r + e) % 7));
      t.vector(t.cols, DType::f32).randomize(5);
      t.expect_same([&](Ops& ops, const Tensors& x) {
        op::RouteGrad grad{.dlogits = x[0], .dweights = x[1], .ids = x[2], .p = x[3], .slope = x[4]};
        grad.rule = rule;
        ops.run(grad);
      });
      t.expect_same([&](Ops& ops, const Tensors& x) {
        ops.run(op::RouteGrad{.dlogits = x[0], .dweights = x[1], .ids = x[2], .p = x[3], .rule = rule});
      });
    });
}

// Rows of experts that no token chose must not be moved by rounding: their gradient is 0.
TEST(CudaRouting, RouteGradOfExpertsThatNoTokenChoseIsZero) {
  each_route([&](Trial& t, std::int64_t k) {
    const RouteRule rule{.normalised = true};
    Matrix& dlogits = t.matrix(1);
    t.matrix(t.rows, k, DType::f32).randomize(2);
    Matrix& ids = t.matrix(t.rows, k, DType::i32);
    for (std::int64_t r = 0; r < t.rows; ++r)
      for (std::int64_t j = 0; j < k; ++j) ids.set(r, j, double((r + 2 * j) % t.cols));
    Matrix& p = t.matrix(t.rows, t.cols, DType::f32);
    for (std::int64_t r = 0; r < t.rows; ++r)
      for (std::int64_t e = 0; e < t.cols; ++e) p.set(r, e, 1 / double(3 + (r + e) % 7));
    auto ops = make_cuda_ops(0, t.sizes);
    std::list<OnGpu> gpu;
    Tensors x;
    for (const Matrix& m : t.made) x.push_back(gpu.emplace_back(*ops, m, t.offset).tensor);
    ops->run(op::RouteGrad{.dlogits = x[0], .dweights = x[1], .ids = x[2], .p = x[3], .rule = rule});
    Matrix got(t.rows, t.cols, dlogits.tensor.dtype, dlogits.tensor.stride - t.cols);
    gpu.front().download(got);
    for (std::int64_t r = 0; r < t.rows; ++r)
      for (std::int64_t e = 0; e < t.cols; ++e) {
        bool chosen = false;
        for (std::int64_t j = 0; j < k; ++j) chosen = chosen || ids.get(r, j) == double(e);
        if (!chosen) {
          EXPECT_EQ(got.get(r, e), 0) << r << " " << e;
        }
      }
  });
}

TEST(CudaRouting, GroupRows) {
  for (const Size size : kRoutes) {
    Trial t{DType::f32, size.rows, size.cols};
    const std::int64_t k = 2, rows = t.rows * k;
    for (int i = 0; i < 3; ++i) t.vector(rows, DType::i32);
    t.vector(t.cols + 1, DType::i32);
    t.indices(rows, t.cols);
    t.expect_same([&](Ops& ops, const Tensors& x) {
      ops.run(op::GroupRows{
          .order = x[0], .tokens = x[1], .places = x[2], .starts = x[3], .ids = x[4].view({t.rows, k})});
    });
  }
}

TEST(CudaRouting, RouterBalance) {
  Trial t{DType::f32, 3, 300};
  t.vector(1, DType::f64).assign({2});
  t.vector(t.cols, DType::f32);
  Matrix& starts = t.matrix(t.rows, t.cols + 1, DType::i32);
  for (std::int64_t l = 0; l < t.rows; ++l)
    for (std::int64_t e = 0; e <= t.cols; ++e) starts.set(l, e, double(e * e / (l + 3)));
  t.matrix(t.rows, t.cols, DType::f32).randomize(3);
  t.expect_same([](Ops& ops, const Tensors& x) {
    ops.run(op::RouterBalance{
        .loss = x[0], .slope = x[1], .starts = x[2], .sums = x[3], .choices = 2, .weight = 0.5f, .scale = 3});
  });
}

TEST(CudaRouting, ScaleRowsWithGradient) {
  for (const bool sigmoid : {false, true})
    each_trial([&](Trial& t) {
      t.matrix(1);
      t.matrix(2);
      t.matrix(3);
      t.vector(t.rows, DType::f32).randomize(4);
      t.vector(t.rows, DType::f32);
      t.expect_same([&](Ops& ops, const Tensors& x) {
        ops.run(op::ScaleRows{.y = x[0], .x = x[1], .w = x[3], .sigmoid = sigmoid});
        ops.run(
            op::ScaleRowsGrad{.dx = x[2], .dw = x[4], .dy = x[2], .x = x[1], .w = x[3], .sigmoid = sigmoid});
      });
    });
}

TEST(CudaRouting, GatherSum) {
  for (const bool added : {false, true})
    each_trial([&](Trial& t) {
      for (const std::uint64_t seed : {1, 2, 3}) t.matrix(seed);
      t.indices(t.rows * 3, t.rows);
      t.expect_same([&](Ops& ops, const Tensors& x) {
        ops.run(op::GatherSum{
            .y = x[0], .x = x[1], .rows = x[3].view({t.rows, 3}), .c = added ? x[2] : Tensor{}});
      });
    });
}

TEST(CudaRouting, RepeatRowsWithGradient) {
  each_trial([](Trial& t) {
    t.matrix(1);
    t.matrix(t.rows * 3, t.cols, t.type);
    t.matrix(2);
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::RepeatRows{.y = x[1], .x = x[0]});
      ops.run(op::RepeatRowsGrad{.dx = x[2], .dy = x[1]});
    });
  });
}

TEST(CudaRouting, Transpose) {
  each_trial([](Trial& t) {
    t.matrix(t.cols, t.rows, t.type);
    t.matrix(1);
    t.expect_same([](Ops& ops, const Tensors& x) { ops.run(op::Transpose{.y = x[0], .x = x[1]}); });
  });
}

}  // namespace
}  // namespace ft::cuda
