// The computations of one block of LLaMA-2-7B in bf16 on a GPU, on 4096 tokens: products and attention in
// TFLOP/s, all else in GB/s of what an ideal implementation reads and writes, and in % of the measured copy
// bandwidth. bench_gpu [GPU's number]: markdown on standard output.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/optimizer_steps.h"
#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"
#include "engine/ops/trace_ops.h"

namespace ft {
namespace {

constexpr std::int64_t kRows = 4096, kWidth = 4096, kHidden = 11008, kVocabulary = 32000, kLossRows = 512,
                       kRank = 16, kHead = 128;
constexpr std::int64_t kBytes = std::int64_t{3} << 30;

class Bench {
 public:
  explicit Bench(int gpu) : ops_(make_cuda_ops(gpu)), trace_(*ops_), arena_(ops_->allocate(kBytes), kBytes) {}

  void run() {
    std::printf("| computation | us | TFLOP/s | GB/s | %% of copy |\n|---|---|---|---|---|\n");
    copy();
    products();
    attention();
    elementwise();
    loss_and_optimizer();
  }

 private:
  void copy() {
    const Scope scope(arena_);
    const Tensor y = numbers(kRows, 4 * kHidden), x = numbers(kRows, 4 * kHidden);
    copy_bandwidth_ = measure("copy", [&](Ops& o) { o.copy(y, x); });
  }
  void products() {
    const Scope scope(arena_);
    const Tensor x = numbers(kRows, kWidth), y = numbers(kRows, kWidth), h = numbers(kRows, kHidden);
    const Tensor square = numbers(kWidth, kWidth), up = numbers(kHidden, kWidth), a = numbers(kRank, kWidth),
                 b = numbers(kWidth, kRank), u = numbers(kRows, kRank);
    const Tensor da = numbers(kRank, kWidth, DType::f32);
    const auto row = [&](const char* name, Tensor out, const std::vector<Term>& terms, Tensor c = {}) {
      measure(name, [=](Ops& o) { o.run(op::Products{.y = out, .terms = terms, .c = c}); });
    };
    const Term base{x, Trans::no, square, Trans::yes}, adapter{u, Trans::no, b, Trans::yes};
    row("x Wq^T", y, {base});
    row("x Wq^T + u B^T", y, {base, adapter});
    row("x A^T", u, {{x, Trans::no, a, Trans::yes}});
    row("dA += u^T x", da, {{u, Trans::yes, x, Trans::no}}, da);
    row("x Wup^T", h, {{x, Trans::no, up, Trans::yes}});
    row("dh Wup", y, {{h, Trans::no, up, Trans::no}});
    FourBitMatrix w{{FourBitBook::nf4, 64, false}, {kHidden, kWidth}, {}, {}, {}, {}};
    w.codes = arena_.take({kHidden * kWidth / 2}, DType::u8);
    w.absmax = arena_.take({kHidden * kWidth / 64}, DType::f32);
    ops_->run(op::Fill{w.absmax, 1});
    row("x Wup^T, nf4", h, {{x, Trans::no, {}, Trans::yes, w}});
    row("dh Wup, nf4", y, {{h, Trans::no, {}, Trans::no, w}});
  }
  void attention() {
    attention("attention, causal", kHead);
    attention("attention, causal, heads of 64", 64);
  }
  void attention(const char* name, std::int64_t width) {
    const Scope scope(arena_);
    const Heads heads{kWidth / width, kWidth / width, width};
    const Scores scores{.scale = 1 / std::sqrt(static_cast<float>(width))};
    const std::vector<std::int32_t> starts{0, kRows};
    std::vector<Tensor> t;
    for (int i = 0; i < 8; ++i) t.push_back(numbers(kRows, kWidth));
    const Tensor lse = arena_.take({heads.query, kRows}, DType::f32);
    measure(name, [&](Ops& o) {
      o.run(op::Attention{.y = t[0],
                          .lse = lse,
                          .q = t[1],
                          .k = t[2],
                          .v = t[3],
                          .heads = heads,
                          .mask = {starts},
                          .scores = scores});
    });
    measure("its gradient", [&](Ops& o) {
      o.run(op::AttentionGrad{.dq = t[4],
                              .dk = t[5],
                              .dv = t[6],
                              .dy = t[7],
                              .y = t[0],
                              .lse = lse,
                              .q = t[1],
                              .k = t[2],
                              .v = t[3],
                              .heads = heads,
                              .mask = {starts},
                              .scores = scores});
    });
  }
  void elementwise() {
    const Scope scope(arena_);
    const Tensor x = numbers(kRows, kWidth), y = numbers(kRows, kWidth), w = numbers(1, kWidth);
    const Tensor rstd = numbers(1, kRows, DType::f32), dw = numbers(1, kWidth, DType::f32);
    const Tensor gate = numbers(kRows, kHidden), up = numbers(kRows, kHidden), act = numbers(kRows, kHidden);
    const Tensor cos = numbers(kRows, kHead / 2, DType::f32), positions = zeros(kRows);
    measure("rms_norm",
            [&](Ops& o) { o.run(op::RmsNorm{.y = y, .rstd = rstd, .x = x, .w = w, .eps = 1e-5f}); });
    measure("rms_norm_grad dx",
            [&](Ops& o) { o.run(op::RmsNormGrad{.dx = y, .dy = x, .x = x, .w = w, .rstd = rstd}); });
    measure("rms_norm_grad dw",
            [&](Ops& o) { o.run(op::RmsNormGrad{.dw = dw, .dy = x, .x = x, .w = w, .rstd = rstd}); });
    measure("rope", [&](Ops& o) {
      o.run(op::Rope{.x = y, .cos = cos, .sin = cos, .positions = positions, .head_width = kHead});
    });
    measure("gated silu",
            [&](Ops& o) { o.run(op::Gated{.f = Activation::silu, .y = act, .gate = gate, .up = up}); });
    measure("gated_grad silu", [&](Ops& o) {
      o.run(
          op::GatedGrad{.f = Activation::silu, .dgate = gate, .dup = up, .dy = act, .gate = gate, .up = up});
    });
    measure("dropout", [&](Ops& o) { o.run(op::Dropout{.y = y, .x = x, .p = 0.05f, .random = Random{1}}); });
    measure("add", [&](Ops& o) { o.run(op::Add{y, x}); });
  }
  void loss_and_optimizer() {
    const Scope scope(arena_);
    const Tensor logits = numbers(kLossRows, kVocabulary), loss = numbers(1, kLossRows, DType::f32);
    const Tensor targets = zeros(kLossRows);
    measure("cross_entropy and gradient", [&](Ops& o) {
      o.run(op::CrossEntropy{
          .loss = loss, .logits = logits, .targets = targets, .scale = 1e-3f, .gradient = true});
    });
    const Tensor sum = arena_.take({1}, DType::f64);
    std::vector<Tensor> t;
    for (int i = 0; i < 4; ++i) t.push_back(numbers(1, 40 << 20, DType::f32));
    measure("sum_squares", [&](Ops& o) { o.run(op::SumSquares{sum, t[3]}); });
    measure_steps(*ops_, arena_, {t[0], t[1], t[2], t[3]},
                  [&](const char* name, const auto& step) { measure(name, [&](Ops& o) { step(o); }); });
  }

  // Half of them 2, the others 0.
  Tensor numbers(std::int64_t rows, std::int64_t cols, DType type = DType::bf16) {
    const Tensor t = arena_.take({rows, cols}, type);
    ops_->run(op::Fill{t, 1});
    ops_->run(
        op::Dropout{.y = t, .x = t, .p = 0.5f, .random = Random{static_cast<std::uint64_t>(arena_.mark())}});
    return t;
  }
  Tensor zeros(std::int64_t n) {
    const Tensor t = arena_.take({n}, DType::i32);
    const std::vector<std::int32_t> host(static_cast<std::size_t>(n));
    ops_->upload(t, host.data());
    return t;
  }
  // One line; returns bytes per second. The call is queued several times, so that waiting for it costs
  // little.
  template <class F>
  double measure(const char* name, F f) {
    trace_.clear();
    f(trace_);
    const TraceTotal total = trace_.totals()[0];
    constexpr int kCalls = 20, kRepeats = 5;
    double best = 1e9;
    for (int r = 0; r < kRepeats; ++r) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kCalls; ++i) f(*ops_);
      ops_->synchronize();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    best /= kCalls;
    const double bandwidth = total.bytes / best;
    std::printf("| %s | %.0f | %.0f | %.0f | %.0f |\n", name, best * 1e6, total.flops / best * 1e-12,
                bandwidth * 1e-9, copy_bandwidth_ > 0 ? 100 * bandwidth / copy_bandwidth_ : 100);
    return bandwidth;
  }

  std::unique_ptr<Ops> ops_;
  TraceOps trace_;
  Arena arena_;
  double copy_bandwidth_ = 0;
};

}  // namespace
}  // namespace ft

int main(int argc, char** argv) {
  try {
    ft::Bench(argc > 1 ? std::atoi(argv[1]) : 0).run();
  } catch (const ft::UserError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return static_cast<int>(e.code);
  }
}
