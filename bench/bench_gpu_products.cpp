// Compares sums of products of LLaMA-2-7B and T5-Large by ft's own kernel and by cuBLASLt, on the same random
// numbers:
//     bench_gpu_products [GPU's number]    markdown on standard output
// d: the largest difference of the results in every 17th row, relative to the largest number.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "engine/core/arena.h"
#include "engine/core/error.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

class ProductsInOnePass {
 public:
  explicit ProductsInOnePass(int gpu)
      : vendor_(make_cuda_ops(gpu, with(ProductKernels::vendor))),
        own_(make_cuda_ops(gpu, with(ProductKernels::own))),
        arena_(vendor_->allocate(kBytes), kBytes) {}

  void run() {
    std::printf("\n| y = | m | n | cuBLASLt us | TFLOP/s | one pass us | TFLOP/s | d |\n");
    std::printf("|---|---|---|---|---|---|---|---|\n");
    for (const std::int64_t rows : {8192, 4096}) {
      square(rows, 4096, 3);
      wide(rows);
      gradient(rows);
      for (const std::int64_t width : {kWidth, kHidden}) narrow(rows, width);
    }
    square(8192, 1024, 3);
    square(2048, 1024, 3);
    head();
  }

 private:
  static constexpr int kRounds = 5;
  static constexpr std::int64_t kBytes = std::int64_t{4} << 30, kRank = 16, kHidden = 11008, kWidth = 4096;
  static CudaWorkspace with(ProductKernels kernels) {
    CudaWorkspace w;
    w.products = kernels;
    return w;
  }

  // Measures a square linear (q, k or v) that has `siblings` of the same size.
  void square(std::int64_t rows, std::int64_t width, int siblings) {
    const Scope scope(arena_);
    const Tensor x = numbers(rows, width), u = numbers(rows, kRank * siblings),
                 residual = numbers(rows, width), b = numbers(width, kRank),
                 a = numbers(kRank * siblings, width), bias = numbers(1, width);
    std::vector<Tensor> w, dy;
    for (int i = 0; i < siblings; ++i) w.push_back(numbers(width, width)), dy.push_back(numbers(rows, width));
    const Term base{x, Trans::no, w[0], Trans::yes}, adapter{u.columns(0, kRank), Trans::no, b, Trans::yes};
    row("x W^T", rows, width, {base});
    row("x W^T + u B^T", rows, width, {base, adapter});
    row("x W^T + u B^T + residual", rows, width, {base, adapter}, residual);
    row("x W^T + u B^T + bias", rows, width, {base, adapter}, bias.view({width}));
    row("dy W", rows, width, {{dy[0], Trans::no, w[0], Trans::no}});
    std::vector<Term> terms;
    for (int i = 0; i < siblings; ++i)
      terms.push_back(
          {dy[static_cast<std::size_t>(i)], Trans::no, w[static_cast<std::size_t>(i)], Trans::no});
    terms.push_back({u, Trans::no, a, Trans::no});
    row("dq Wq + dk Wk + dv Wv + du A", rows, width, terms);
  }
  void wide(std::int64_t rows) {
    const Scope scope(arena_);
    const Tensor x = numbers(rows, kWidth), h = numbers(rows, kHidden), dg = numbers(rows, kHidden),
                 u = numbers(rows, 2 * kRank), up = numbers(kHidden, kWidth), gate = numbers(kHidden, kWidth),
                 down = numbers(kWidth, kHidden), b = numbers(kHidden, kRank), c = numbers(kWidth, kRank),
                 a = numbers(2 * kRank, kWidth), v = u.columns(0, kRank);
    row("x Wup^T", rows, kHidden, {{x, Trans::no, up, Trans::yes}});
    row("x Wup^T + u B^T", rows, kHidden, {{x, Trans::no, up, Trans::yes}, {v, Trans::no, b, Trans::yes}});
    row("h Wdown^T", rows, kWidth, {{h, Trans::no, down, Trans::yes}});
    row("h Wdown^T + u B^T + residual", rows, kWidth,
        {{h, Trans::no, down, Trans::yes}, {v, Trans::no, c, Trans::yes}}, x);
    row("dy Wdown", rows, kHidden, {{x, Trans::no, down, Trans::no}});
    row("dg Wgate + dh Wup + du A", rows, kWidth,
        {{dg, Trans::no, gate, Trans::no}, {h, Trans::no, up, Trans::no}, {u, Trans::no, a, Trans::no}});
  }
  void gradient(std::int64_t rows) {
    const Scope scope(arena_);
    const Tensor x = numbers(rows, kWidth), h = numbers(rows, kHidden),
                 dw = numbers(kHidden, kWidth, DType::f32);
    const Term term{h, Trans::yes, x, Trans::no};
    row("dh^T x", kHidden, kWidth, {term});
    row("dh^T x, f32", kHidden, kWidth, {term}, {}, DType::f32);
    row("dh^T x + dW, f32", kHidden, kWidth, {term}, dw, DType::f32);
  }
  // Measures an adapter's gradients: as two products, or with one read of dy.
  void narrow(std::int64_t rows, std::int64_t width) {
    const Scope scope(arena_);
    const Tensor dy = numbers(rows, width), b = numbers(width, kRank), u = numbers(rows, kRank),
                 db = numbers(width, kRank, DType::f32), du = numbers(rows, kRank),
                 other = numbers(rows, kRank);
    double seconds[2] = {1e9, 1e9};
    for (int round = 0; round < kRounds; ++round)
      for (int own = 0; own < 2; ++own)
        seconds[own] = std::min(
            seconds[own], time(*(own ? own_ : vendor_),
                               op::NarrowGrad{.du = own ? du : other, .db = db, .dy = dy, .b = b, .u = u}));
    print("dy B, dB + dy^T u", rows, width, 4.0 * double(rows) * double(width) * kRank, seconds,
          difference(du, other));
  }
  void head() {
    const Scope scope(arena_);
    constexpr std::int64_t kRows = 512, kWords = 32000;
    const Tensor x = numbers(kRows, kWidth), w = numbers(kWords, kWidth), dy = numbers(kRows, kWords);
    row("x Whead^T", kRows, kWords, {{x, Trans::no, w, Trans::yes}});
    row("dl Whead", kRows, kWidth, {{dy, Trans::no, w, Trans::no}});
  }

  // Takes a tensor of uniform random numbers.
  Tensor numbers(std::int64_t rows, std::int64_t cols, DType type = DType::bf16) {
    const Tensor t = arena_.take({rows, cols}, type);
    vendor_->run(op::Fill{t, 0});
    vendor_->run(op::Noise{.y = t, .scale = 1, .random = Random{static_cast<std::uint64_t>(arena_.mark())}});
    vendor_->synchronize();
    return t;
  }

  void row(const char* name, std::int64_t m, std::int64_t n, const std::vector<Term>& terms, Tensor c = {},
           DType type = DType::bf16) {
    const Scope scope(arena_);
    const Tensor theirs = arena_.take({m, n}, type), ours = arena_.take({m, n}, type);
    double seconds[2] = {1e9, 1e9};
    for (int round = 0; round < kRounds; ++round)
      for (int own = 0; own < 2; ++own)
        seconds[own] = std::min(
            seconds[own], time(*(own ? own_ : vendor_), op::Products{own ? ours : theirs, terms, 1, c}));
    double work = 0;
    for (const Term& t : terms) work += 2.0 * double(m) * double(n) * double(t.depth());
    print(name, m, n, work, seconds, difference(theirs, ours));
  }
  static void print(const char* name, std::int64_t m, std::int64_t n, double work, const double (&seconds)[2],
                    double d) {
    std::printf("| %s | %ld | %ld | %.0f | %.0f | %.0f | %.0f | %.1e |\n", name, static_cast<long>(m),
                static_cast<long>(n), seconds[0] * 1e6, work / seconds[0] * 1e-12, seconds[1] * 1e6,
                work / seconds[1] * 1e-12, d);
    std::fflush(stdout);
  }
  static double time(Ops& ops, const auto& op) {
    constexpr int kCalls = 20;
    ops.run(op);
    ops.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) ops.run(op);
    ops.synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kCalls;
  }
  double difference(const Tensor& a, const Tensor& b) {
    const std::vector<float> x = some_rows(a), y = some_rows(b);
    double largest = 0, apart = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      largest = std::max(largest, std::abs(double{x[i]}));
      const double d = std::abs(double{x[i]} - double{y[i]});
      apart = d > apart || std::isnan(d) ? d : apart;
    }
    return apart / largest;
  }
  std::vector<float> some_rows(const Tensor& t) {
    const Scope scope(arena_);
    constexpr std::int64_t kEvery = 17;
    const Shape shape{(t.rows() + kEvery - 1) / kEvery, t.cols()};
    const Tensor some = arena_.take(shape, t.dtype), wide = arena_.take(shape, DType::f32);
    vendor_->copy(some, Tensor(t.data, t.dtype, shape, kEvery * t.stride));
    vendor_->run(op::Cast{wide, some});
    std::vector<float> all(static_cast<std::size_t>(wide.numel()));
    vendor_->download(all.data(), wide);
    return all;
  }

  std::unique_ptr<Ops> vendor_, own_;
  Arena arena_;
};

}  // namespace
}  // namespace ft

int main(int argc, char** argv) {
  try {
    ft::ProductsInOnePass(argc > 1 ? std::atoi(argv[1]) : 0).run();
  } catch (const ft::UserError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return static_cast<int>(e.code);
  }
}
