// Measures attention and its gradient, as a share of the FLOP/s that the register tile reaches out of cache.
// bench_attention [threads] [target] [regular expression of rows]: markdown on standard output. FLOP are
// counted as usual: two products of the pairs that the masks let through forward, five backward, and half the
// square when causal.
#include <algorithm>
#include <cstdio>
#include <functional>
#include <regex>
#include <vector>

#include "bench/cpu_bench.h"
#include "engine/cpu/attention.h"
#include "engine/cpu/cores.h"
#include "engine/cpu/memory.h"
#include "tests/support/attention_pair.h"

namespace ft::cpu {
namespace {

struct Row {
  const char* what;
  std::int32_t sequences, length;
  Heads heads;
  bool causal = true;
  bool bias = false;
  std::int64_t window = 0;
};
const Row kRows[] = {
    {"134M LLaMA, 4 x 512", 4, 512, {12, 12, 64}},
    {"134M LLaMA, 1 x 4096", 1, 4096, {12, 12, 64}},
    {"8 query heads a key head of 128, 1 x 2048", 1, 2048, {32, 4, 128}},
    {"window of 512, 1 x 4096", 1, 4096, {12, 12, 64}, true, false, 512},
    {"short sequences, 64 x 32", 64, 32, {12, 12, 64}},
    {"T5 encoder, 4 x 512", 4, 512, {12, 12, 64}, false, true},
    {"T5 decoder, 4 x 128", 4, 128, {12, 12, 64}, true, true},
};

class Bench {
 public:
  Bench(const Kernels& kernels, int threads)
      : kernels_(kernels), team_(threads), attention_(kernels, team_) {}

  double peak(DType t) {
    double best = 0;
    for (int i = 0; i < 30; ++i) best = std::max(best, tile_rate(kernels_, team_, t));
    return best;
  }

  void row(const Row& r, DType t, double peak) {
    const std::int64_t rows = std::int64_t{r.sequences} * r.length, reach = 128;
    const std::int64_t wide = r.heads.query * r.heads.width, narrow = r.heads.key_value * r.heads.width;
    std::vector<std::int32_t> starts;
    for (std::int32_t s = 0; s <= r.sequences; ++s) starts.push_back(s * r.length);
    const Mask mask{starts, r.causal, r.window, {}};
    memory_.clear();
    const Scores scores{0.125f, r.bias ? make({2 * reach + 1, r.heads.query}, t) : Tensor(), 0, {}};
    const AttentionPair pair{.y = make({rows, wide}, t),
                             .lse = make({r.heads.query, rows}, DType::f32),
                             .q = make({rows, wide}, t),
                             .k = make({rows, narrow}, t),
                             .v = make({rows, narrow}, t),
                             .dy = make({rows, wide}, t),
                             .dq = make({rows, wide}, t),
                             .dk = make({rows, narrow}, t),
                             .dv = make({rows, narrow}, t),
                             .heads = r.heads,
                             .mask = mask,
                             .scores = scores};
    const double forward = fastest([&] { attention_.forward(pair.forward()); });
    const double backward = fastest([&] { attention_.backward(pair.backward()); });
    const double n = r.length, w = r.window ? std::min<double>(static_cast<double>(r.window), n) : n;
    const double pairs = r.sequences * (r.causal ? n * w - w * w / 2 : n * n);
    const double product = 2 * pairs * static_cast<double>(wide);
    std::printf("| %s | %s | %.0f | %.0f %% | %.0f | %.0f %% |\n", r.what, name_of(t),
                2 * product / forward * 1e-9, 200 * product / forward / peak, 5 * product / backward * 1e-9,
                500 * product / backward / peak);
    std::fflush(stdout);
  }

 private:
  double fastest(const std::function<void()>& f) const {
    double best = 1e9;
    for (double spent = 0, n = 0; n < 5 || spent < 0.5; ++n) {
      const double one = time_of(team_, f);
      best = std::min(best, one);
      spent += one;
    }
    return best;
  }
  Tensor make(Shape shape, DType t) {
    const std::int64_t n = shape.numel();
    memory_.push_back(reserve(n * size_of(t)));
    const Tensor x(memory_.back().get(), t, shape);
    fill_random(x.data, n, t, memory_.size());
    return x;
  }

  const Kernels& kernels_;
  Team team_;
  Attention attention_;
  std::vector<Buffer> memory_;
};

}  // namespace
}  // namespace ft::cpu

int main(int argc, char** argv) {
  using namespace ft::cpu;
  const int threads = argc > 1 ? std::stoi(argv[1]) : usable_cores();
  const Target target = target_named(argc > 2 ? argv[2] : "");
  const std::regex which(argc > 3 ? argv[3] : ".");
  Bench bench(kernels_of(target), threads);
  std::printf("%s, %d threads\n", name_of(target), threads);
  for (const ft::DType t : {ft::DType::f32, ft::DType::bf16}) {
    const double peak = bench.peak(t);
    std::printf("\n%s: register tile out of cache %.0f GFLOP/s\n\n", name_of(t), peak * 1e-9);
    std::printf("| attention | type | forward, GFLOP/s | of the tile | backward, GFLOP/s | of the tile |\n");
    std::printf("|---|---|---|---|---|---|\n");
    for (const Row& r : kRows)
      if (std::regex_search(r.what, which)) bench.row(r, t, peak);
  }
}
