// Measures optimizer steps, for the benchmarks of CPUs and GPUs.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/core/arena.h"
#include "engine/ops/ops.h"

namespace ft {

// Arrays of an optimizer step: all in f32 and of one size, a multiple of 256; v is above 0.
struct StepArrays {
  Tensor master, m, v, grad;
};

// An optimizer state in 8 bits; every value has the middle code.
struct CodedArray {
  Tensor codes, largest;
  CodedArray(Ops& ops, Arena& arena, std::int64_t n)
      : codes(arena.take({n}, DType::u8)), largest(arena.take({n / op::kCodedBlock}, DType::f32)) {
    const std::vector<std::uint8_t> middle(static_cast<std::size_t>(n), 128);
    ops.upload(codes, middle.data());
    ops.run(op::Fill{largest, 1});
  }
};

// Calls measure(name, step) for each optimizer; step(Ops&) runs it once.
void measure_steps(Ops& ops, Arena& arena, const StepArrays& a, const auto& measure) {
  const std::int64_t n = a.master.numel();
  const CodedArray m(ops, arena, n), v(ops, arena, n), slow(ops, arena, n);
  const Tensor &p = a.master, &g = a.grad, slow_mean = arena.take({n}, DType::f32);
  ops.run(op::Fill{slow_mean, 0});
  op::AdamW adamw{.master = p,
                  .m = a.m,
                  .v = a.v,
                  .grad = g,
                  .lr = 1e-4,
                  .beta1 = 0.9,
                  .beta2 = 0.999,
                  .eps = 1e-8,
                  .decay = 0.01,
                  .grad_scale = 1,
                  .step = 1};
  op::Lion lion{
      .master = p, .m = a.m, .grad = g, .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99, .decay = 0, .grad_scale = 1};
  op::AdEMAMix ademamix{.master = p,
                        .m = a.m,
                        .slow = slow_mean,
                        .v = a.v,
                        .grad = g,
                        .lr = 1e-4,
                        .beta1 = 0.9,
                        .beta2 = 0.999,
                        .beta3 = 0.9999,
                        .alpha = 5,
                        .eps = 1e-8,
                        .decay = 0.01,
                        .grad_scale = 1,
                        .step = 1};
  op::Sgd sgd{.master = p, .grad = g, .lr = 1e-4, .decay = 0, .grad_scale = 1};
  const op::Adagrad adagrad{.master = p,
                            .sum = a.v,
                            .grad = g,
                            .lr = 1e-4,
                            .lr_decay = 0,
                            .eps = 1e-10,
                            .decay = 0,
                            .grad_scale = 1,
                            .step = 1};
  const op::RmsProp rmsprop{.master = p,
                            .square = a.v,
                            .grad = g,
                            .lr = 1e-4,
                            .alpha = 0.99,
                            .eps = 1e-8,
                            .momentum = 0,
                            .decay = 0,
                            .grad_scale = 1};
  const auto row = [&](const char* name, const auto& step) {
    measure(name, [step](Ops& o) { o.run(step); });
  };
  row("adamw", adamw);
  row("lion", lion);
  row("ademamix", ademamix);
  row("sgd", sgd);
  row("adagrad", adagrad);
  row("rmsprop", rmsprop);
  row("average", op::Average{.mean = a.m, .x = p, .rest = 1e-3});
  sgd.buffer = a.m;
  sgd.momentum = 0.9;
  row("sgd with momentum", sgd);
  adamw.m = m.codes;
  adamw.v = v.codes;
  adamw.m_largest = m.largest;
  adamw.v_largest = v.largest;
  row("adamw in 8 bits", adamw);
  lion.m = m.codes;
  lion.m_largest = m.largest;
  row("lion in 8 bits", lion);
  ademamix.m = m.codes;
  ademamix.slow = slow.codes;
  ademamix.v = v.codes;
  ademamix.m_largest = m.largest;
  ademamix.slow_largest = slow.largest;
  ademamix.v_largest = v.largest;
  row("ademamix in 8 bits", ademamix);
}

}  // namespace ft
