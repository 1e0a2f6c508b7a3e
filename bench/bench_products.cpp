// Compares matrix products of a LLaMA of 134M parameters (width 768, MLP 2048, vocabulary 32000; 2048 tokens)
// by ft's own kernel and by oneDNN, on the same data, with the FLOP/s that the register tile reaches out of
// cache.
// bench_products [threads] [target] [regular expression of rows]: markdown on standard output.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <regex>
#include <vector>

#include "bench/cpu_bench.h"
#include "engine/cpu/cores.h"
#include "engine/cpu/memory.h"
#include "engine/cpu/products.h"

namespace ft::cpu {
namespace {

struct Storage {
  Buffer memory;  // on huge pages, as in training
  Tensor make(std::int64_t rows, std::int64_t cols, DType dtype, std::uint64_t seed) {
    const std::int64_t pad = cols * size_of(dtype) % 4096 == 0 ? 64 / size_of(dtype) : 0;
    memory = reserve(rows * (cols + pad) * size_of(dtype));
    Tensor t(memory.get(), dtype, {rows, cols}, cols + pad);
    fill_random(t.data, rows * (cols + pad), dtype, seed);
    return t;
  }
};

struct Row {
  const char* what;
  std::int64_t m, n, k;
  Trans ta, tb;
  bool f32_result = false;  // the result is added to y, as for gradients
  std::int64_t rank = 0;    // depth of a second term; 0: none
};
constexpr Trans kNo = Trans::no, kYes = Trans::yes;
const Row kRows[] = {
    {"q or o, forward", 2048, 768, 768, kNo, kYes},
    {"q or o, dX", 2048, 768, 768, kNo, kNo},
    {"gate, forward", 2048, 2048, 768, kNo, kYes},
    {"gate, dX", 2048, 768, 2048, kNo, kNo},
    {"down, forward", 2048, 768, 2048, kNo, kYes},
    {"down, dX", 2048, 2048, 768, kNo, kNo},
    {"head 512 rows, forward", 512, 32000, 768, kNo, kYes},
    {"head 512 rows, dX", 512, 768, 32000, kNo, kNo},
    {"gate + LoRA, forward", 2048, 2048, 768, kNo, kYes, false, 16},
    {"u = x A^T", 2048, 16, 768, kNo, kYes},
    {"u = x A^T of q, k, v", 2048, 48, 768, kNo, kYes},
    {"v = dy B", 2048, 16, 2048, kNo, kNo},
    {"dA += v^T x", 16, 768, 2048, kYes, kNo, true},
    {"dB += dy^T u", 2048, 16, 2048, kYes, kNo, true},
    {"dW of q += dy^T x", 768, 768, 2048, kYes, kNo, true},
    {"dW of gate += dy^T x", 2048, 768, 2048, kYes, kNo, true},
    {"dW of the head += dy^T x", 32000, 768, 512, kYes, kNo, true},
    {"one row, gate", 1, 2048, 768, kNo, kYes},
    {"one row, head", 1, 32000, 768, kNo, kYes},
};

struct Bench {
  const Kernels& kernels;
  Team& team;

  double peak(DType t) const { return tile_rate(kernels, team, t); }

  // Returns FLOP/s of the fastest of many repetitions of f; 0 if f cannot run this case. Appends to `shares`
  // each repetition's share of the register tile's FLOP/s, measured just before and after.
  double fastest(DType t, double flop, const std::function<bool()>& f,
                 std::vector<double>* shares = nullptr) const {
    double best = 0, spent = 0, before = peak(t);
    for (int i = 0; i < 400 && (i < 5 || spent < 0.5); ++i) {
      bool ran = false;
      const double one = time_of(team, [&] { ran = f(); }), after = peak(t);
      if (!ran) return 0;
      if (shares) shares->push_back(flop / one / std::max(before, after));
      before = after;
      best = std::max(best, flop / one);
      spent += one;
    }
    return best;
  }

  void row(const Row& r, DType t) {
    Storage sa, sb, sy, sa2, sb2;
    const bool ta = r.ta == kYes, tb = r.tb == kYes;
    const Tensor a = sa.make(ta ? r.k : r.m, ta ? r.m : r.k, t, 1),
                 b = sb.make(tb ? r.n : r.k, tb ? r.k : r.n, t, 2);
    const Tensor y = sy.make(r.m, r.n, r.f32_result ? DType::f32 : t, 3), c = r.f32_result ? y : Tensor();
    std::vector<Term> terms{{a, r.ta, b, r.tb}};
    if (r.rank) terms.push_back({sa2.make(r.m, r.rank, t, 4), kNo, sb2.make(r.rank, r.n, t, 5), kNo});
    Products products(kernels.products, team, {});
    OneDnn other_library;
    std::vector<std::byte> scratch(std::size_t{256} << 20);
    const ProductTerm term{a.data, a.stride, ta, b.data, b.stride, tb, r.k};
    const ProductCall call{y.data, y.stride, y.dtype, r.m,   r.n,         &term,         1, t, 1,
                           c.data, c.stride, c.dtype, &team, team.size(), scratch.data()};
    const double flop = 2.0 * static_cast<double>(r.m * r.n * (r.k + r.rank));
    std::vector<double> shares;  // of the tile's FLOP/s just before and after
    const double own = fastest(
        t, flop, [&] { return products.run({.y = y, .terms = terms, .c = c}), true; }, &shares);
    const double other =
        r.rank ? 0 : fastest(t, flop, [&] { return other_library.run(call, false, 256 << 20); });
    std::nth_element(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2),
                     shares.end());
    std::printf("| %s | %ld x %ld x %ld | %.0f | %.0f %% | %.0f | %.0f |\n", r.what, r.m, r.n, r.k + r.rank,
                own * 1e-9, 100 * shares[shares.size() / 2], other * 1e-9, flop / own * 1e6);
    std::fflush(stdout);
  }
};

void run(int threads, Target target, const std::regex& which) {
  Team team(threads);
  Bench bench{kernels_of(target), team};
  double best[2] = {0, 0};
  for (int i = 0; i < 20; ++i)
    for (const DType t : {DType::f32, DType::bf16})
      best[t == DType::bf16] = std::max(best[t == DType::bf16], bench.peak(t));
  std::printf("%s, %d threads; register tile out of cache: f32 %.0f, bf16 %.0f GFLOP/s\n", name_of(target),
              threads, best[0] * 1e-9, best[1] * 1e-9);
  for (const DType t : {DType::f32, DType::bf16}) {
    std::printf("\n| %s | M x N x K | GFLOP/s | of the tile | oneDNN | us |\n|---|---|---|---|---|---|\n",
                name_of(t));
    for (const Row& r : kRows)
      if (std::regex_search(r.what, which)) bench.row(r, t);
  }
}

}  // namespace
}  // namespace ft::cpu

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::stoi(argv[1]) : ft::cpu::usable_cores();
  const ft::cpu::Target target = ft::cpu::target_named(argc > 2 ? argv[2] : "");
  ft::cpu::run(threads, target, std::regex(argc > 3 ? argv[3] : "."));
}
