// Optimizers' steps against the same in f64. Tests of AdamW, Lion and plain SGD are in loss_test.cpp.
#include <cmath>
#include <cstring>
#include <functional>

#include "engine/quant/dynamic_map.h"
#include "tests/engine/cpu/leaf_fixture.h"

namespace ft::cpu {
namespace {

using Doubles = std::vector<double>;

// Runs six steps with gradients of very different sizes, some zero. `states`: number of states; reference(x,
// g, step) updates x, the master and the states of one element; run(x, grad, step) makes the operation.
template <class Run>
void expect_steps(std::size_t states, const std::function<void(double*, double, int)>& reference,
                  const Run& run) {
  each_trial({{1, 7}, {3, 5000}}, [&](const Trial& s) {
    if (s.type != DType::f32 || s.pad != 0) return;
    const std::int64_t n = s.rows * s.cols;
    Matrix& grad = s.vector(n, DType::f32, 2);
    std::vector<Matrix*> x{&s.vector(n, DType::f32, 1)};
    for (std::size_t k = 0; k < states; ++k) {
      x.push_back(&s.vector(n, DType::f32));
      s.ops.run(op::Fill{*x.back(), 0});
    }
    std::vector<Doubles> want;
    for (Matrix* m : x) want.push_back(m->values());
    for (int step = 1; step <= 6; ++step) {
      grad.randomize(std::uint64_t(step), step % 2 ? 1e-3 : 10);
      for (std::int64_t i = 0; i < n; i += 5) grad.set(0, i, 0);
      for (std::int64_t i = 0; i < n; ++i) {
        double one[4] = {};
        for (std::size_t k = 0; k < x.size(); ++k) one[k] = want[k][std::size_t(i)];
        reference(one, 0.5 * grad.get(0, i) + 0.1 * one[0], step);
        for (std::size_t k = 0; k < x.size(); ++k) want[k][std::size_t(i)] = one[k];
      }
      run(s.ops, x, grad, step);
    }
    for (std::size_t k = 0; k < x.size(); ++k) EXPECT_LT(nmse(x[k]->values(), want[k]), 1e-12) << k;
  });
}

void expect_momentum(bool nesterov) {
  expect_steps(
      1,
      [=](double* x, double g, int step) {
        x[1] = step == 1 ? g : 0.9 * x[1] + (nesterov ? 1 : 0.7) * g;
        x[0] -= 0.01 * (nesterov ? g + 0.9 * x[1] : x[1]);
      },
      [=](Ops& ops, const auto& x, const Matrix& grad, int step) {
        ops.run(op::Sgd{.master = *x[0],
                        .buffer = *x[1],
                        .grad = grad,
                        .lr = 0.01,
                        .decay = 0.1,
                        .grad_scale = 0.5f,
                        .momentum = 0.9,
                        .dampening = nesterov ? 0 : 0.3,
                        .nesterov = nesterov,
                        .step = step});
      });
}

TEST(Sgd, WithMomentumAndDampening) { expect_momentum(false); }
TEST(Sgd, WithNesterovsMomentum) { expect_momentum(true); }

TEST(Adagrad, FollowsTheDoublePrecisionUpdate) {
  expect_steps(
      1,
      [](double* x, double g, int step) {
        x[1] += g * g;
        x[0] -= 0.1 / (1 + (step - 1) * 0.05) * g / (std::sqrt(x[1]) + 1e-4);
      },
      [](Ops& ops, const auto& x, const Matrix& grad, int step) {
        ops.run(op::Adagrad{.master = *x[0],
                            .sum = *x[1],
                            .grad = grad,
                            .lr = 0.1,
                            .lr_decay = 0.05,
                            .eps = 1e-4,
                            .decay = 0.1,
                            .grad_scale = 0.5f,
                            .step = step});
      });
}

void expect_rmsprop(bool centered, bool momentum) {
  const std::size_t buffer = centered ? 3 : 2;
  expect_steps(
      1 + std::size_t(centered) + std::size_t(momentum),
      [=](double* x, double g, int) {
        x[1] = 0.9 * x[1] + 0.1 * g * g;
        if (centered) x[2] = 0.9 * x[2] + 0.1 * g;
        double change = g / (std::sqrt(x[1] - (centered ? x[2] * x[2] : 0)) + 1e-3);
        if (momentum) change = x[buffer] = 0.8 * x[buffer] + change;
        x[0] -= 0.01 * change;
      },
      [=](Ops& ops, const auto& x, const Matrix& grad, int) {
        ops.run(op::RmsProp{.master = *x[0],
                            .square = *x[1],
                            .mean = centered ? Tensor(*x[2]) : Tensor{},
                            .buffer = momentum ? Tensor(*x[buffer]) : Tensor{},
                            .grad = grad,
                            .lr = 0.01,
                            .alpha = 0.9,
                            .eps = 1e-3,
                            .momentum = 0.8,
                            .decay = 0.1,
                            .grad_scale = 0.5f});
      });
}

TEST(RmsProp, FollowsTheDoublePrecisionUpdate) {
  for (const bool centered : {false, true})
    for (const bool momentum : {false, true}) expect_rmsprop(centered, momentum);
}

TEST(AdEMAMix, FollowsTheDoublePrecisionUpdate) {
  expect_steps(
      3,
      [](double* x, double g, int step) {
        const double grad = g - 0.1 * x[0];  // the decay is not in the gradient
        x[1] = 0.9 * x[1] + (1 - 0.9) * grad;
        x[2] = 0.999 * x[2] + (1 - 0.999) * grad;
        x[3] = 0.99 * x[3] + (1 - 0.99) * grad * grad;
        const double mean = x[1] / (1 - std::pow(0.9, step)) + 8 * x[2];
        x[0] -= 0.01 * (mean / (std::sqrt(x[3] / (1 - std::pow(0.99, step))) + 1e-3) + 0.1 * x[0]);
      },
      [](Ops& ops, const auto& x, const Matrix& grad, int step) {
        ops.run(op::AdEMAMix{.master = *x[0],
                             .m = *x[1],
                             .slow = *x[2],
                             .v = *x[3],
                             .grad = grad,
                             .lr = 0.01,
                             .beta1 = 0.9,
                             .beta2 = 0.99,
                             .beta3 = 0.999,
                             .alpha = 8,
                             .eps = 1e-3,
                             .decay = 0.1,
                             .grad_scale = 0.5f,
                             .step = step});
      });
}

// Tensors of a step: a master, a gradient, three states, and two of them in 8 bits.
struct StepTensors {
  std::vector<Tensor> x, codes, largest;
};

// Runs every step, one after another, and `then` after each.
void run_adaptive_steps(Ops& ops, const StepTensors& t, const Tensor& value, const auto& then) {
  const std::vector<Tensor>& x = t.x;
  op::AdamW adamw{.master = x[0],
                  .value = value,
                  .m = x[2],
                  .v = x[3],
                  .grad = x[1],
                  .lr = 0.01,
                  .beta1 = 0.9,
                  .beta2 = 0.99,
                  .eps = 1e-8,
                  .decay = 0.1,
                  .grad_scale = 0.5f,
                  .step = 1};
  ops.run(adamw), then();
  adamw.m = t.codes[0], adamw.v = t.codes[1], adamw.m_largest = t.largest[0], adamw.v_largest = t.largest[1];
  ops.run(adamw), then();
  ops.run(op::Lion{.master = x[0],
                   .value = value,
                   .m = x[2],
                   .grad = x[1],
                   .lr = 0.01,
                   .beta1 = 0.9,
                   .beta2 = 0.99,
                   .decay = 0.1,
                   .grad_scale = 0.5f});
  then();
  ops.run(op::AdEMAMix{.master = x[0],
                       .value = value,
                       .m = x[2],
                       .slow = x[4],
                       .v = x[3],
                       .grad = x[1],
                       .lr = 0.01,
                       .beta1 = 0.9,
                       .beta2 = 0.99,
                       .beta3 = 0.999,
                       .alpha = 8,
                       .eps = 1e-3,
                       .decay = 0.1,
                       .grad_scale = 0.5f,
                       .step = 1});
  then();
}
void run_steps_with_decay_in_the_gradient(Ops& ops, const StepTensors& t, const Tensor& value,
                                          const auto& then) {
  const std::vector<Tensor>& x = t.x;
  for (const Tensor& buffer : {Tensor{}, x[2]}) {
    ops.run(op::Sgd{.master = x[0],
                    .value = value,
                    .buffer = buffer,
                    .grad = x[1],
                    .lr = 0.01,
                    .decay = 0.1,
                    .grad_scale = 0.5f,
                    .momentum = buffer ? 0.9 : 0});
    then();
  }
  ops.run(op::Adagrad{.master = x[0],
                      .value = value,
                      .sum = x[3],
                      .grad = x[1],
                      .lr = 0.1,
                      .lr_decay = 0.05,
                      .eps = 1e-4,
                      .decay = 0.1,
                      .grad_scale = 0.5f,
                      .step = 1});
  then();
  ops.run(op::RmsProp{.master = x[0],
                      .value = value,
                      .square = x[3],
                      .grad = x[1],
                      .lr = 0.01,
                      .alpha = 0.9,
                      .eps = 1e-3,
                      .momentum = 0,
                      .decay = 0.1,
                      .grad_scale = 0.5f});
  then();
}

TEST(Steps, WriteTheRoundedMaster) {
  for (const NamedKernels& named : all_kernels())
    for (const DType type : {DType::bf16, DType::f16})
      for (const std::int64_t n : {1, 300, 5003}) {
        SCOPED_TRACE(str(named.name, " ", n));
        CpuOps ops(2, named.kernels);
        std::list<Matrix> made;
        const auto vectors = [&](int count, std::int64_t size, DType t) {
          std::vector<Tensor> all;
          for (int k = 0; k < count; ++k) all.push_back(made.emplace_back(1, size, t).tensor.view({size}));
          return all;
        };
        const StepTensors t{vectors(5, n, DType::f32), vectors(2, n, DType::u8),
                            vectors(2, (n + 255) / 256, DType::f32)};
        Matrix got(1, n, type), want(1, n, type);
        std::size_t place = 0;
        for (Matrix& m : made)
          if (++place <= 2)
            m.randomize(place);
          else
            std::memset(m.tensor.data, 0, std::size_t(m.tensor.bytes()));
        int steps = 0;
        const auto compare = [&] {
          ++steps;
          ops.run(op::Cast{want, t.x[0].view({1, n})});
          EXPECT_EQ(got.values(), want.values()) << "step " << steps;
          std::memset(got.tensor.data, 0, std::size_t(got.tensor.bytes()));
        };
        const Tensor value = got.tensor.view({n});
        run_adaptive_steps(ops, t, value, compare);
        run_steps_with_decay_in_the_gradient(ops, t, value, compare);
        EXPECT_EQ(steps, 8);
      }
}

// Returns the code nearest to x / largest, divided as in the kernel.
int code_of(float x, float largest, bool has_signs) {
  return dynamic_code(dynamic_bounds(has_signs).data(), x / largest);
}

// Tests all bounds between codes, their neighbours, and numbers of all sizes. With beta1 = beta2 = 0 the
// states are the gradient, which has signs, and its square.
TEST(EightBit, EveryNumberHasTheCodeThatTheSearchFinds) {
  std::vector<float> numbers;
  const auto add_near = [&](float x) {
    float below = x, above = x;
    for (int i = 0; i < 4; ++i) {
      numbers.insert(numbers.end(), {below, above});
      below = std::nextafter(below, -2.0f);
      above = std::nextafter(above, 2.0f);
    }
  };
  for (const float bound : dynamic_bounds(true)) add_near(bound);
  for (const float bound : dynamic_bounds(false)) add_near(std::sqrt(bound));
  for (std::uint32_t i = 0; i < 50000; ++i)  // from 2^-31 to 1
    numbers.push_back(
        __builtin_bit_cast(float, (i & 1) << 31 | (0x30000000u + i * 2654435769u % 0x0f800000u)));

  const std::int64_t blocks = (std::ssize(numbers) + 254) / 255;
  for (const NamedKernels& named : all_kernels())
    for (const float size : {1.0f, 0.3f, 1.7e-5f, 1e-17f, 3e15f}) {
      SCOPED_TRACE(str(named.name, " ", size));
      CpuOps ops(3, named.kernels);
      const std::int64_t n = blocks * 256 - 3;
      Matrix p(1, n, DType::f32), grad(1, n, DType::f32), m(1, n, DType::u8), v(1, n, DType::u8);
      Matrix m_largest(1, blocks, DType::f32), v_largest(1, blocks, DType::f32);
      for (std::int64_t i = 0; i < n; ++i) {
        const auto from = std::size_t(i - i / 256 - 1);
        grad.set(0, i, size * (i % 256 == 0 ? 1 : from < numbers.size() ? numbers[from] : 0));
        for (Matrix* codes : {&m, &v}) codes->set(0, i, 0);
        p.set(0, i, 0);
      }
      for (Matrix* largest : {&m_largest, &v_largest}) ops.run(op::Fill{*largest, 0});
      ops.run(op::AdamW{.master = p,
                        .m = m,
                        .v = v,
                        .m_largest = m_largest,
                        .v_largest = v_largest,
                        .grad = grad,
                        .lr = 1e-2,
                        .beta1 = 0,
                        .beta2 = 0,
                        .eps = 1e-8,
                        .decay = 0,
                        .grad_scale = 1,
                        .step = 1});
      for (std::int64_t i = 0; i < n; ++i) {
        const auto g = static_cast<float>(grad.get(0, i));
        ASSERT_EQ(m.get(0, i), code_of(g, size, true)) << g;
        ASSERT_EQ(v.get(0, i), code_of(g * g, size * size, false)) << g;
      }
    }
}

// A step in 8 bits is the step in 32 bits with the decoded states, followed by rounding to the nearest codes.
TEST(EightBit, IsTheStepOfTheDecodedStates) {
  for (const NamedKernels& named : all_kernels())
    for (const std::int64_t n : {1, 255, 256, 700, 20000}) {
      SCOPED_TRACE(str(named.name, " ", n));
      CpuOps ops(3, named.kernels);
      std::list<Matrix> made;
      const auto vector = [&](std::int64_t count, DType type) -> Matrix& {
        return made.emplace_back(1, count, type);
      };
      const std::int64_t blocks = (n + 255) / 256;
      Matrix &p = vector(n, DType::f32), &grad = vector(n, DType::f32), &want = vector(n, DType::f32);
      p.randomize(1);
      std::vector<Matrix*> codes, largest, plain;
      for (int k = 0; k < 2; ++k) {
        codes.push_back(&vector(n, DType::u8));
        largest.push_back(&vector(blocks, DType::f32));
        plain.push_back(&vector(n, DType::f32));
        for (std::int64_t i = 0; i < n; ++i) codes.back()->set(0, i, 0);
        ops.run(op::Fill{*largest.back(), 0});
      }
      for (int step = 1; step <= 3; ++step) {
        grad.randomize(std::uint64_t(step), step == 2 ? 1e-4 : 3);
        for (std::int64_t i = 0; i < n; ++i) {
          if (i % 7 == 0 || i / 256 == 1) grad.set(0, i, 0);
          want.set(0, i, p.get(0, i));
          for (std::size_t k = 0; k < 2; ++k)
            plain[k]->set(0, i,
                          dynamic_map(k == 0)[std::size_t(codes[k]->get(0, i))] *
                              static_cast<float>(largest[k]->get(0, i / 256)));
        }
        op::AdamW adamw{.master = want,
                        .m = *plain[0],
                        .v = *plain[1],
                        .grad = grad,
                        .lr = 1e-2,
                        .beta1 = 0.9,
                        .beta2 = 0.99,
                        .eps = 1e-8,
                        .decay = 0.1,
                        .grad_scale = 0.5f,
                        .step = step};
        ops.run(adamw);
        adamw.master = p;
        adamw.m = *codes[0];
        adamw.v = *codes[1];
        adamw.m_largest = *largest[0];
        adamw.v_largest = *largest[1];
        ops.run(adamw);
        EXPECT_EQ(p.values(), want.values());
        for (std::size_t k = 0; k < 2; ++k)
          for (std::int64_t b = 0; b < blocks; ++b) {
            double top = 0;
            for (std::int64_t i = b * 256; i < std::min(n, b * 256 + 256); ++i)
              top = std::max(top, std::abs(plain[k]->get(0, i)));
            EXPECT_EQ(largest[k]->get(0, b), top);
            for (std::int64_t i = b * 256; i < std::min(n, b * 256 + 256); ++i) {
              const double x = top > 0 ? plain[k]->get(0, i) / top : 0;
              const auto code = std::size_t(codes[k]->get(0, i));
              const double apart = std::abs(dynamic_map(k == 0)[code] - x);
              const auto distance_of = [&](std::size_t other) {
                return std::abs(dynamic_map(k == 0)[other] - x) + 1e-7;
              };
              EXPECT_LE(apart, distance_of(code > 0 ? code - 1 : 1)) << i;
              EXPECT_LE(apart, distance_of(code < 255 ? code + 1 : 254)) << i;
            }
          }
      }
    }
}

}  // namespace
}  // namespace ft::cpu
