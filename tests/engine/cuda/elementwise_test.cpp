// Elementwise computations, sums and optimizers of the CUDA backend against the CPU's.
#include <cmath>
#include <limits>

#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

TEST(CudaElementwise, Fill) {
  each_trial([](Trial& t) {
    t.matrix(1);
    t.expect_same([](Ops& ops, const Tensors& x) { ops.run(op::Fill{x[0], 1.7f}); }, 0);
  });
}

TEST(CudaElementwise, AddOfAllTypes) {
  each_trial([](Trial& t) {
    t.matrix(1);
    t.matrix(t.rows, t.cols, DType::f32).randomize(2);
    t.matrix(t.rows, t.cols, DType::bf16).randomize(3);
    t.matrix(t.rows, t.cols, DType::f16).randomize(4);
    t.expect_same(
        [](Ops& ops, const Tensors& x) {
          for (std::size_t i = 1; i < 4; ++i) ops.run(op::Add{x[0], x[i]});
        },
        0);
  });
}

TEST(CudaElementwise, CastsRoundToNearestEven) {
  each_trial([](Trial& t) {
    t.matrix(1);
    for (const DType to : {DType::f32, DType::bf16, DType::f16}) t.matrix(t.rows, t.cols, to);
    for (const DType to : {DType::f32, DType::bf16, DType::f16}) t.matrix(t.rows, t.cols, to);
    t.expect_same(
        [](Ops& ops, const Tensors& x) {
          for (std::size_t i = 1; i < 4; ++i) ops.run(op::Cast{x[i], x[0]});
          ops.run(op::Cast{x[4], x[3]});
          ops.run(op::Cast{x[5], x[3]});
          ops.run(op::Cast{x[6], x[3]});
        },
        0);
  });
}

TEST(CudaElementwise, CopyOfStridedRows) {
  each_trial([](Trial& t) {
    t.matrix(1);
    t.matrix(2);
    t.made.emplace_back(t.rows, t.cols, t.type, 5).randomize(3);
    t.expect_same(
        [](Ops& ops, const Tensors& x) {
          ops.copy(x[0], x[1]);
          ops.copy(x[2], x[1]);
        },
        0);
  });
}

TEST(CudaElementwise, DropoutHasTheCpusMask) {
  each_trial([](Trial& t) {
    t.matrix(1);
    t.matrix(2);
    t.expect_same(
        [](Ops& ops, const Tensors& x) {
          ops.run(op::Dropout{.y = x[0], .x = x[1], .p = 0.3f, .random = Random{1234567}});
          ops.run(op::Dropout{.y = x[1], .x = x[1], .p = 0.9f, .random = Random{7}, .first_row = 21});
          const std::int64_t middle = (x[0].cols() + 2) / 3;
          const Tensor some = x[0].columns(0, middle);
          ops.run(op::Dropout{.y = some, .x = some, .p = 0.3f, .random = Random{7}, .columns = x[0].cols()});
        },
        0);
  });
}

TEST(CudaElementwise, FactorsAndCaps) {
  each_trial([](Trial& t) {
    t.matrix(1);
    t.matrix(t.rows, t.cols, t.type).randomize(2, 6);
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::SoftCap{.y = x[0], .x = x[1], .cap = 3});
      ops.run(op::Multiply{.y = x[1], .x = x[1], .factor = 1.3f});
    });
  });
}

TEST(CudaElementwise, NoiseHasTheCpusNumbers) {
  each_trial([](Trial& t) {
    t.matrix(1);
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::Noise{.y = x[0], .scale = 0.25f, .random = Random{1234567}});
    });
  });
}

TEST(CudaElementwise, ColumnsAreRescaled) {
  each_trial([](Trial& t) {
    t.matrix(1);
    t.matrix(2);
    t.vector(t.cols, DType::f32).randomize(3);
    t.vector(t.cols, t.type).randomize(4);
    t.vector(t.cols, DType::f32).randomize(5);
    t.expect_same([](Ops& ops, const Tensors& x) {
      ops.run(op::ColumnDots{.y = x[4], .a = x[0], .b = x[1], .scale = x[2]});
      ops.run(op::ScaleColumns{.y = x[0], .x = x[1], .scale = x[2], .bias = x[3]});
      ops.run(op::ScaleColumns{.y = x[1], .x = x[1], .scale = x[2]});
    });
  });
}

// op::Hadamard with a weight in 4 bits is tested by the layers that use it.
TEST(CudaElementwise, ProductsOfElements) {
  for (const bool wide : {false, true})
    each_trial([&](Trial& t) {
      t.matrix(1);
      t.matrix(t.rows, t.cols, wide ? DType::f32 : t.type).randomize(2);
      t.matrix(3);
      t.matrix(t.cols, t.rows, t.type).randomize(4);
      t.matrix(5);
      t.expect_same([](Ops& ops, const Tensors& x) {
        ops.run(op::Hadamard{.y = x[0], .x = x[1], .w = {.b = x[2]}});
        ops.run(op::Hadamard{.y = x[4], .x = x[1], .w = {.b = x[3], .tb = Trans::yes}});
      });
    });
}

// The values are the CPU's, bit for bit. Rows are cut to whole blocks.
TEST(CudaElementwise, MatricesGetTheValuesOfTheirBlocks) {
  for (const BlockFormat format : {BlockFormat::q4_0, BlockFormat::q8_0})
    for (const DType from : {DType::f32, DType::bf16, DType::f16})
      each_trial([&](Trial& t) {
        const std::int64_t cols = (t.cols + 31) / 32 * 32;
        t.matrix(t.rows, cols, t.type).randomize(1);
        t.matrix(t.rows, cols, from).randomize(2);
        t.expect_same(
            [&](Ops& ops, const Tensors& x) {
              ops.run(op::FakeQuantize{.y = x[0], .x = x[1], .format = format});
              ops.run(op::FakeQuantize{.y = x[1], .x = x[1], .format = format});
            },
            0);
      });
}

TEST(CudaElementwise, BlocksThatAreNotFiniteBecomeNaN) {
  auto ops = make_cuda_ops(0, kSmall);
  for (const float wrong :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    Matrix x(2, 64, DType::f32);
    x.randomize(3).set(1, 40, wrong);
    const OnGpu on(*ops, x, 0);
    ops->run(op::FakeQuantize{.y = on.tensor, .x = on.tensor, .format = BlockFormat::q4_0});
    on.download(x);
    for (std::int64_t r = 0; r < 2; ++r)
      for (std::int64_t c = 0; c < 64; ++c)
        EXPECT_EQ(std::isnan(x.get(r, c)), r == 1 && c >= 32) << r << " " << c;
  }
}

TEST(CudaElementwise, ColumnsAreFoldedAndRepeated) {
  for (const std::int64_t first : {0, 1, 100})
    each_trial([&](Trial& t) {
      t.matrix(1);
      t.matrix(t.rows, t.cols / 3 + 1, t.type);
      t.matrix(t.rows, t.cols + 2, t.type);
      t.matrix(t.rows, t.cols, DType::f32).randomize(5);
      t.expect_same([&](Ops& ops, const Tensors& x) {
        for (const Tensor& narrow : {x[1], x[2]}) {
          ops.run(op::FoldColumns{.y = narrow, .x = x[0], .first = first});
          ops.run(op::FoldColumnsGrad{.dx = x[3], .dy = narrow, .first = first});
          ops.run(op::FoldColumnsGrad{.dx = x[0], .dy = narrow, .first = first});
        }
      });
    });
}

TEST(CudaElementwise, BlocksOfColumnsAreMultiplied) {
  for (const std::int64_t n : {2, 7})
    for (const std::int64_t matrices : {1, 3})
      each_trial([&](Trial& t) {
        const std::int64_t cols = 3 * n;
        t.matrix(t.rows, cols, t.type).randomize(1);
        t.matrix(t.rows, cols, t.type).randomize(2);
        t.matrix(n, matrices * n, DType::f32).randomize(3);
        t.matrix(n, matrices * n, DType::f32).randomize(4);
        t.matrix(matrices, n * (n - 1) / 2, DType::f32).randomize(5);
        t.matrix(n, matrices * n, DType::f32);
        t.expect_same([&](Ops& ops, const Tensors& x) {
          ops.run(op::BlockProductsGrad{.db = x[3], .x = x[0], .dy = x[1]});
          ops.run(op::BlockProducts{.y = x[1], .x = x[0], .b = x[2], .diagonal = 0.5f});
          ops.run(op::SkewMatrices{.y = x[5], .x = x[4], .sign = -1});
          ops.run(op::SkewMatricesGrad{.dx = x[4], .dy = x[2]});
        });
      });
}

TEST(CudaElementwise, ElementsArePutAndCollected) {
  each_trial([](Trial& t) {
    const std::int64_t count = (t.rows * t.cols + 2) / 3;  // every third element
    t.matrix(1);
    t.vector(count, t.type).randomize(2);
    t.vector(count, DType::f32).randomize(3);
    t.matrix(t.rows, t.cols, DType::f32).randomize(4);
    auto* places = t.vector(2 * count, DType::i32).tensor.as<std::int32_t>();
    for (std::int64_t i = 0; i < count; ++i) {
      places[i] = std::int32_t(3 * i / t.cols);
      places[count + i] = std::int32_t(3 * i % t.cols);
    }
    t.expect_same([=](Ops& ops, const Tensors& x) {
      const Tensor at = x[4].view({2, count});
      ops.run(op::ScatterElements{.y = x[0], .x = x[1], .at = at});
      ops.run(op::ScatterElementsGrad{.dx = x[2], .dy = x[3], .at = at});
    });
  });
}

TEST(CudaElementwise, MagnitudesOfRows) {
  each_trial([](Trial& t) {
    for (const std::uint64_t seed : {0, 0, 3}) t.vector(t.rows, DType::f32).randomize(seed);
    Matrix& squares = t.vector(t.rows, DType::f32);
    for (std::int64_t i = 0; i < t.rows; ++i) squares.set(0, i, 100 * double(t.cols) + double(i));
    t.matrix(1);
    t.matrix(t.cols, t.rows, DType::f32).randomize(2);
    t.expect_same(
        [](Ops& ops, const Tensors& x) {
          ops.run(op::Magnitudes{
              .scale = x[0], .per_norm = x[1], .magnitude = x[2], .squares = x[3], .b = x[4], .p = x[5]});
        },
        1e-12);
  });
}

TEST(CudaElementwise, GatedActivationsAndTheirGradients) {
  for (const Activation f :
       {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu, Activation::sigmoid})
    each_trial([f](Trial& t) {
      for (std::uint64_t seed = 1; seed < 7; ++seed) t.matrix(seed);
      t.expect_same([f](Ops& ops, const Tensors& x) {
        ops.run(op::Gated{.f = f, .y = x[0], .gate = x[1], .up = x[2]});
        ops.run(op::GatedGrad{.f = f, .dgate = x[4], .dup = x[5], .dy = x[3], .gate = x[1], .up = x[2]});
        ops.run(op::GatedGrad{
            .f = f, .dgate = x[1], .dup = x[2], .dy = x[3], .gate = x[1], .up = x[2]});  // in place
        ops.run(op::Gated{.f = f, .y = x[0], .gate = x[1]});
        ops.run(op::GatedGrad{.f = f, .dgate = x[4], .dy = x[3], .gate = x[1]});
      });
    });
}

TEST(CudaElementwise, DropoutWithinOtherOperations) {
  each_trial([](Trial& t) {
    for (std::uint64_t seed = 1; seed < 7; ++seed) t.matrix(seed);
    t.expect_same([](Ops& ops, const Tensors& x) {
      const op::Drop drop{.p = 0.3f, .random = Random{7}, .first_row = 21};
      ops.run(op::Add{.y = x[5], .x = x[2], .drop = drop});
      ops.run(op::Gated{.f = Activation::silu, .y = x[0], .gate = x[1], .up = x[2], .drop = drop});
      const std::int64_t middle = (x[0].cols() + 2) / 3;
      const Tensor some = x[4].columns(0, middle), d = x[3].columns(0, middle);
      const op::Drop part{.p = 0.6f, .random = Random{8}, .columns = x[0].cols()};
      ops.run(op::GatedGrad{.f = Activation::relu, .dgate = some, .dy = d, .gate = some, .drop = part});
      ops.run(op::GatedGrad{.f = Activation::silu,
                            .dgate = x[1],
                            .dup = x[2],
                            .dy = x[3],
                            .gate = x[1],
                            .up = x[2],
                            .drop = drop});
    });
  });
}

TEST(CudaElementwise, SumsInF64) {
  for (const std::int64_t n : {1, 7, 256, 4097, 70001})
    for (const std::int64_t offset : {0, 1}) {
      Trial t{.offset = offset};
      for (int i = 0; i < 2; ++i) t.vector(1, DType::f64).randomize(5);
      t.vector(n, DType::f32).randomize(6);
      t.expect_same(
          [](Ops& ops, const Tensors& x) {
            ops.run(op::Sum{x[0], x[2]});
            ops.run(op::SumSquares{x[1], x[2]});
          },
          1e-28);
    }
}

TEST(CudaElementwise, Optimizers) {
  for (const std::int64_t n : {1, 7, 2048, 2051})
    for (const std::int64_t offset : {0, 3}) {
      Trial t{.offset = offset};
      for (std::uint64_t seed = 1; seed < 6; ++seed) t.vector(n, DType::f32).randomize(seed);
      for (std::int64_t i = 0; i < n; ++i) t.made.back().set(0, i, std::abs(t.made.back().get(0, i)));
      t.expect_same([](Ops& ops, const Tensors& x) {
        for (std::int64_t step = 1; step < 4; ++step)
          ops.run(op::AdamW{.master = x[0],
                            .m = x[1],
                            .v = x[4],
                            .grad = x[2],
                            .lr = 1e-2,
                            .beta1 = 0.9,
                            .beta2 = 0.999,
                            .eps = 1e-8,
                            .decay = 0.1,
                            .grad_scale = 0.7f,
                            .step = step,
                            .decoupled = step != 2});
        for (int times = 0; times < 2; ++times)
          ops.run(op::Lion{.master = x[0],
                           .m = x[1],
                           .grad = x[2],
                           .lr = 1e-2,
                           .beta1 = 0.9,
                           .beta2 = 0.99,
                           .decay = 0.1,
                           .grad_scale = 0.7f});
        for (std::int64_t step = 1; step < 3; ++step)
          ops.run(op::AdEMAMix{.master = x[0],
                               .m = x[1],
                               .slow = x[3],
                               .v = x[4],
                               .grad = x[2],
                               .lr = 1e-2,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .beta3 = 0.9999,
                               .alpha = 5,
                               .eps = 1e-8,
                               .decay = 0.1,
                               .grad_scale = 0.7f,
                               .step = step});
        ops.run(op::Sgd{.master = x[0], .grad = x[2], .lr = 0.1, .decay = 0.01, .grad_scale = 0.5f});
      });
    }
}

// The rounded master has the bits of a cast of it.
TEST(CudaElementwise, OptimizersWriteValues) {
  for (const DType type : {DType::bf16, DType::f16})
    for (const std::int64_t n : {1, 2048, 2051})
      for (const std::int64_t offset : {0, 3}) {
        Trial t{.offset = offset};
        for (std::uint64_t seed = 1; seed < 3; ++seed) t.vector(n, DType::f32).randomize(seed);
        for (int k = 0; k < 2; ++k) t.vector(n, DType::f32);
        for (int k = 0; k < 2; ++k) t.vector(n, DType::u8);
        for (int k = 0; k < 2; ++k) t.vector((n + 255) / 256, DType::f32);
        for (int k = 0; k < 4; ++k) t.vector(n, type);
        t.expect_same(
            [](Ops& ops, const Tensors& x) {
              for (const std::size_t k : {2, 3, 6, 7}) ops.run(op::Fill{x[k], 0});
              op::AdamW step{.master = x[0],
                             .value = x[8],
                             .m = x[2],
                             .v = x[3],
                             .grad = x[1],
                             .lr = 1e-2,
                             .beta1 = 0.9,
                             .beta2 = 0.999,
                             .eps = 1e-8,
                             .decay = 0.1,
                             .grad_scale = 0.7f,
                             .step = 1};
              ops.run(step);
              ops.run(op::Cast{x[9], x[0]});
              step.value = x[10], step.m = x[4], step.v = x[5], step.m_largest = x[6], step.v_largest = x[7];
              ops.run(step);
              ops.run(op::Cast{x[11], x[0]});
            },
            0);
        auto m = t.made.begin();
        std::advance(m, 8);
        for (int twice = 0; twice < 2; ++twice, ++m) {
          const std::vector<double> got = m->values();
          EXPECT_EQ(got, (++m)->values());
        }
      }
}

// With states in 8 bits, codes are the same as the host's.
TEST(CudaElementwise, OptimizersInEightBits) {
  for (const std::int64_t n : {1, 256, 700, 5000}) {
    Trial t;
    const std::int64_t blocks = (n + 255) / 256;
    for (std::uint64_t seed = 1; seed < 3; ++seed) t.vector(n, DType::f32).randomize(seed);
    for (int k = 0; k < 4; ++k) t.vector(n, DType::u8);
    for (int k = 0; k < 4; ++k) t.vector(blocks, DType::f32).randomize(3);
    t.expect_same(
        [](Ops& ops, const Tensors& x) {
          for (std::size_t k = 6; k < 10; ++k) ops.run(op::Fill{x[k], 0});
          for (std::int64_t step = 1; step < 4; ++step) {
            ops.run(op::AdamW{.master = x[0],
                              .m = x[2],
                              .v = x[3],
                              .m_largest = x[6],
                              .v_largest = x[7],
                              .grad = x[1],
                              .lr = 1e-2,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .eps = 1e-8,
                              .decay = 0.1,
                              .grad_scale = 0.7f,
                              .step = step});
            ops.run(op::Lion{.master = x[0],
                             .m = x[4],
                             .m_largest = x[8],
                             .grad = x[1],
                             .lr = 1e-2,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .decay = 0.1,
                             .grad_scale = 0.7f});
            ops.run(op::AdEMAMix{.master = x[0],
                                 .m = x[2],
                                 .slow = x[5],
                                 .v = x[3],
                                 .m_largest = x[6],
                                 .slow_largest = x[9],
                                 .v_largest = x[7],
                                 .grad = x[1],
                                 .lr = 1e-2,
                                 .beta1 = 0.9,
                                 .beta2 = 0.999,
                                 .beta3 = 0.9999,
                                 .alpha = 5,
                                 .eps = 1e-8,
                                 .decay = 0.1,
                                 .grad_scale = 0.7f,
                                 .step = step});
          }
        },
        0);
  }
}

// With the smallest and the largest number of states.
TEST(CudaElementwise, OptimizersWithDecayInTheGradient) {
  for (const std::int64_t n : {1, 7, 2048, 2051}) {
    Trial t;
    for (std::uint64_t seed = 1; seed < 8; ++seed) t.vector(n, DType::f32).randomize(seed);
    t.expect_same([](Ops& ops, const Tensors& x) {
      for (std::size_t k = 2; k < 6; ++k) ops.run(op::Fill{x[k], 0});
      const Tensor& grad = x[6];
      for (std::int64_t step = 1; step < 4; ++step) {
        ops.run(op::Sgd{.master = x[0],
                        .buffer = x[2],
                        .grad = grad,
                        .lr = 0.1,
                        .decay = 0.01,
                        .grad_scale = 0.5f,
                        .momentum = 0.9,
                        .nesterov = step != 2,
                        .step = step});
        ops.run(op::Adagrad{.master = x[1],
                            .sum = x[3],
                            .grad = grad,
                            .lr = 0.1,
                            .lr_decay = 0.05,
                            .eps = 1e-4,
                            .decay = 0.01,
                            .grad_scale = 0.5f,
                            .step = step});
        for (const Tensor& mean : {Tensor{}, x[4]})
          for (const Tensor& buffer : {Tensor{}, x[5]})
            ops.run(op::RmsProp{.master = x[1],
                                .square = x[3],
                                .mean = mean,
                                .buffer = buffer,
                                .grad = grad,
                                .lr = 0.01,
                                .alpha = 0.9,
                                .eps = 1e-3,
                                .momentum = 0.8,
                                .decay = 0.01,
                                .grad_scale = 0.5f});
      }
    });
  }
}

}  // namespace
}  // namespace ft::cuda
