// Measures the elementwise computations of a training step of a LLaMA of 134M parameters (2048 tokens, width
// 768, MLP 2048, vocabulary 32000 in chunks of 512 rows), in GB/s that an ideal implementation reads and
// writes.
// bench_leaf [threads] [target]: markdown on standard output, the best of the repeats.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "bench/cpu_bench.h"
#include "bench/optimizer_steps.h"
#include "engine/cpu/cpu_ops.h"
#include "engine/ops/trace_ops.h"

namespace ft {
namespace {

constexpr int kRepeats = 15;

// Tensors of one run, filled with numbers of the size that training has.
class Bench {
 public:
  Bench(int threads, cpu::Target target)
      : cpu_(threads, target), ops_(cpu_), arena_(cpu_.allocate(kBytes), kBytes) {}

  void run(DType type) {
    const Scope scope(arena_);
    const Tensor x = random(2048, 768, type), y = random(2048, 768, type), w = random(1, 768, type);
    const Tensor rstd = random(1, 2048, DType::f32), dw = random(1, 768, DType::f32);
    const Tensor gate = random(2048, 2048, type), up = random(2048, 2048, type),
                 act = random(2048, 2048, type);
    const Tensor logits = random(512, 32000, type), loss = random(1, 512, DType::f32);
    const Tensor cos = random(512, 32, DType::f32), sin = random(512, 32, DType::f32);
    const Tensor positions = indices(2048, 512), targets = indices(512, 32000);
    const auto row = [&](const char* name, auto f) { measure(name, name_of(type), f); };
    row("fill", [&] { ops_.run(op::Fill{y, 0}); });
    row("add", [&] { ops_.run(op::Add{y, x}); });
    row("dropout", [&] { ops_.run(op::Dropout{.y = y, .x = x, .p = 0.05f, .random = Random{1}}); });
    row("rms_norm", [&] { ops_.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x, .w = w, .eps = 1e-5f}); });
    row("rms_norm_grad dx",
        [&] { ops_.run(op::RmsNormGrad{.dx = y, .dy = x, .x = x, .w = w, .rstd = rstd}); });
    row("rms_norm_grad dw",
        [&] { ops_.run(op::RmsNormGrad{.dw = dw, .dy = x, .x = x, .w = w, .rstd = rstd}); });
    row("column_sums", [&] { ops_.run(op::ColumnSums{dw, x}); });
    row("rope", [&] {
      ops_.run(op::Rope{.x = y, .cos = cos, .sin = sin, .positions = positions, .head_width = 64});
    });
    row("gated silu", [&] { ops_.run(op::Gated{.f = Activation::silu, .y = act, .gate = gate, .up = up}); });
    row("gated gelu", [&] { ops_.run(op::Gated{.f = Activation::gelu, .y = act, .gate = gate, .up = up}); });
    row("gated gelu_tanh",
        [&] { ops_.run(op::Gated{.f = Activation::gelu_tanh, .y = act, .gate = gate, .up = up}); });
    row("gated_grad silu", [&] {
      ops_.run(
          op::GatedGrad{.f = Activation::silu, .dgate = gate, .dup = up, .dy = act, .gate = gate, .up = up});
    });
    row("cross_entropy loss",
        [&] { ops_.run(op::CrossEntropy{.loss = loss, .logits = logits, .targets = targets}); });
    row("cross_entropy gradient", [&] {
      ops_.run(op::CrossEntropy{
          .loss = loss, .logits = logits, .targets = targets, .scale = 1e-3f, .gradient = true});
    });
  }

  void run_optimizer() {
    const Scope scope(arena_);
    const std::int64_t n = 3 << 20;
    const Tensor p = random(1, n, DType::f32), g = random(1, n, DType::f32), m = random(1, n, DType::f32),
                 v = random(1, n, DType::f32), y = arena_.take({1}, DType::f64),
                 narrow = random(1, n, DType::bf16);
    ops_.run(op::Fill{v, 1});
    const auto row = [&](const char* name, auto f) { measure(name, "float32", f); };
    row("cast to bf16", [&] { ops_.run(op::Cast{narrow, p}); });
    row("cast to f32", [&] { ops_.run(op::Cast{p, narrow}); });
    row("sum_squares", [&] { ops_.run(op::SumSquares{y, g}); });
    // The copy's speed is the measure for an optimizer step's speed.
    row("copy", [&] { ops_.run(op::Cast{m, p}); });
    measure_steps(ops_, arena_, {p, m, v, g},
                  [&](const char* name, const auto& step) { row(name, [&] { step(ops_); }); });
  }

 private:
  static constexpr std::int64_t kBytes = 512 << 20;

  Tensor random(std::int64_t rows, std::int64_t cols, DType type) {
    const Tensor t = arena_.take({rows, cols}, type);
    for (std::int64_t i = 0; i < t.numel(); ++i) {
      const float v = 4 * to_uniform(static_cast<std::uint32_t>(i * 2654435761u)) - 2;
      if (type == DType::bf16)
        from_float(t.as<bf16>()[i], v);
      else
        t.as<float>()[i] = v;
    }
    return t;
  }
  Tensor indices(std::int64_t n, std::int64_t below) {
    const Tensor t = arena_.take({n}, DType::i32);
    for (std::int64_t i = 0; i < n; ++i) t.as<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7 % below);
    return t;
  }
  // Reads the time. A single thread uses its own CPU clock, which other work on the machine disturbs less.
  double seconds() const {
    timespec t{};
    clock_gettime(cpu_.threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  }
  template <class F>
  void measure(const char* name, const char* type, F f) {
    double best = 1e9;
    for (int i = 0; i < kRepeats; ++i) {
      ops_.clear();
      const double start = seconds();
      f();
      best = std::min(best, seconds() - start);
    }
    std::printf("| %s | %s | %.0f | %.1f |\n", name, type, best * 1e6, ops_.totals()[0].bytes / best * 1e-9);
  }

  cpu::CpuOps cpu_;
  TraceOps ops_;
  Arena arena_;
};

}  // namespace
}  // namespace ft

int main(int argc, char** argv) {
  using namespace ft;
  const int threads = argc > 1 ? std::atoi(argv[1]) : cpu::usable_cores();
  const cpu::Target target = cpu::target_named(argc > 2 ? argv[2] : "");
  std::printf("%d threads, %s\n\n| computation | type | us | GB/s |\n|---|---|---|---|\n", threads,
              cpu::name_of(target));
  Bench bench(threads, target);
  bench.run(DType::f32);
  bench.run(DType::bf16);
  bench.run_optimizer();
}
