// The elementwise computations of a training step of a LLaMA of 134M parameters (2048 tokens, width 768, MLP
// 2048, vocabulary 32000 in chunks of 512 rows), in GB/s of what an ideal implementation reads and writes.
// bench_leaf [threads] [target]: markdown on standard output; the best of the repeats.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "engine/cpu/cpu_ops.h"
#include "engine/ops/trace_ops.h"

namespace ft {
namespace {

constexpr int kRepeats = 15;

// All tensors of one run, filled with numbers of the size that training sees.
class Bench {
 public:
  Bench(int threads, cpu::Target target)
      : cpu_(threads, target), ops_(cpu_, {.calls = true}), arena_(cpu_.allocate(kBytes), kBytes) {}

  void run(DType type) {
    const Scope scope(arena_);
    const Tensor x = random(2048, 768, type), y = random(2048, 768, type), w = random(1, 768, type);
    const Tensor rstd = random(1, 2048, DType::f32), dw = random(1, 768, DType::f32);
    const Tensor gate = random(2048, 2048, type), up = random(2048, 2048, type),
                 act = random(2048, 2048, type);
    const Tensor logits = random(512, 32000, type), loss = random(1, 512, DType::f32);
    const Tensor cos = random(512, 32, DType::f32), sin = random(512, 32, DType::f32);
    const Tensor positions = indices(2048, 512), targets = indices(512, 32000);
    ops_.clear();
    for (int i = 0; i < kRepeats; ++i) {
      ops_.fill(y, 0);
      ops_.add(y, x);
      ops_.dropout(y, x, 0.05f, Random{1});
      ops_.rms_norm(y, rstd, x, w, 1e-5f);
      ops_.rms_norm_grad(y, {}, x, x, w, rstd);
      ops_.rms_norm_grad(y, dw, x, x, w, rstd);
      ops_.column_sums(dw, x);
      ops_.rope(y, cos, sin, positions, 64, 1);
      ops_.gated(Activation::silu, act, gate, up);
      ops_.gated(Activation::gelu, act, gate, up);
      ops_.gated_grad(Activation::silu, act, act, act, gate, up);
      ops_.cross_entropy(loss, logits, targets, {});
      ops_.cross_entropy(loss, logits, targets, {.scale = 1e-3f, .gradient = true});
    }
    const char* names[]{"fill",
                        "add",
                        "dropout",
                        "rms_norm",
                        "rms_norm_grad dx",
                        "rms_norm_grad dx dw",
                        "column_sums",
                        "rope",
                        "gated silu",
                        "gated gelu",
                        "gated_grad silu",
                        "cross_entropy loss",
                        "cross_entropy gradient"};
    report(names, name_of(type));
  }

  void run_optimizer() {
    const Scope scope(arena_);
    const std::int64_t n = 3 << 20;
    const Tensor p = random(1, n, DType::f32), g = random(1, n, DType::f32), m = random(1, n, DType::f32),
                 v = random(1, n, DType::f32), y = arena_.take({1}, DType::f64),
                 narrow = random(1, n, DType::bf16);
    cpu_.add(v, v);
    cpu_.fill(v, 1);
    ops_.clear();
    for (int i = 0; i < kRepeats; ++i) {
      ops_.cast(narrow, p);
      ops_.cast(p, narrow);
      ops_.sum_squares(y, g);
      ops_.adamw(p, m, v, g, {1e-4, 0.9, 0.999, 1e-8, 0.01, 1, i + 1});
      ops_.sgd(p, g, 1e-4f, 0, 1);
    }
    const char* names[]{"cast to bf16", "cast to f32", "sum_squares", "adamw", "sgd"};
    report(names, "float32");
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
  template <std::size_t n>
  void report(const char* const (&names)[n], const char* type) const {
    for (std::size_t i = 0; i < n; ++i) {  // calls come in rounds of n
      const TraceCall* best = &ops_.calls()[i];
      for (std::size_t c = i; c < ops_.calls().size(); c += n)
        if (ops_.calls()[c].seconds < best->seconds) best = &ops_.calls()[c];
      std::printf("| %s | %s | %.0f | %.1f |\n", names[i], type, best->seconds * 1e6,
                  best->bytes / best->seconds * 1e-9);
    }
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
  cpu::Target target = cpu::best_target();
  for (const cpu::Target t : cpu::usable_targets())
    if (argc > 2 && std::string_view(argv[2]) == cpu::name_of(t)) target = t;
  std::printf("%d threads, %s\n\n| computation | type | us | GB/s |\n|---|---|---|---|\n", threads,
              cpu::name_of(target));
  Bench bench(threads, target);
  bench.run(DType::f32);
  bench.run(DType::bf16);
  bench.run_optimizer();
}
