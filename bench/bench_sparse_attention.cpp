// Compares sparse with dense attention: time of one layer's attention and its gradient, by layout.
// bench_sparse_attention [tokens...]: markdown on standard output. Times are CPU time of one thread.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "bench/cpu_bench.h"
#include "engine/cpu/attention.h"
#include "engine/cpu/memory.h"
#include "engine/layers/attention/sparse_layout.h"
#include "tests/support/attention_pair.h"

namespace ft::cpu {
namespace {

using Config = SparseAttentionConfig;
using enum SparsityMode;

constexpr Heads kHeads{4, 4, 64};
constexpr std::int64_t kWide = kHeads.query * kHeads.width;

struct Row {
  const char* what;
  Config config;
};
const Row kRows[] = {
    {"dense", {}},
    {"fixed, 4 + 1 blocks of 16 (the defaults)", {.mode = fixed}},
    {"fixed, 4 + 1 blocks of 64", {.mode = fixed, .block = 64}},
    {"fixed, 16 + 1 blocks of 64", {.mode = fixed, .block = 64, .num_local_blocks = 16}},
    {"variable, 16 blocks of 64", {.mode = variable, .block = 64, .local_window_blocks = {16}}},
    {"bigbird, 7 + 1 + 3 random blocks of 64",
     {.mode = bigbird, .block = 64, .num_random_blocks = 3, .num_sliding_window_blocks = 7}},
    {"bslongformer, 15 + 1 blocks of 64",
     {.mode = bslongformer, .block = 64, .num_sliding_window_blocks = 15}},
    {"local, 15 blocks of 64", {.mode = local, .block = 64, .num_sliding_window_blocks = 15}},
    {"local, 63 blocks of 16", {.mode = local, .block = 16, .num_sliding_window_blocks = 63}},
};

class Bench {
 public:
  explicit Bench(std::int64_t tokens) : tokens_(tokens), starts_{0, static_cast<std::int32_t>(tokens)} {}

  void row(const Row& r, DType t) {
    std::optional<BlockLayout> layout;
    Mask mask{starts_};
    if (r.config.mode != dense) {
      Config c = r.config;
      c.max_seq_length = tokens_;
      layout.emplace(make_layout(c, AttentionDirection::unidirectional, kHeads.query));
      auto* bits = const_cast<std::uint32_t*>(layout->row(0, 0).data());
      mask.blocks = {&*layout, Tensor(reinterpret_cast<std::byte*>(bits), DType::i32,
                                      {layout->heads() * layout->blocks(), layout->words()})};
    }
    const std::int64_t kib = layout ? layout->blocks() * layout->words() * 4 / 1024 : 0;
    const double pairs = visible_pairs(mask), all = visible_pairs({starts_});
    memory_.clear();
    const auto make = [&] { return taken({tokens_, kWide}, t); };
    const AttentionPair pair{.y = make(),
                             .lse = taken({kHeads.query, tokens_}, DType::f32),
                             .q = make(),
                             .k = make(),
                             .v = make(),
                             .dy = make(),
                             .dq = make(),
                             .dk = make(),
                             .dv = make(),
                             .heads = kHeads,
                             .mask = mask};
    const double forward = time_of(team_, [&] { attention_.forward(pair.forward()); });
    const double backward = time_of(team_, [&] { attention_.backward(pair.backward()); });
    if (!layout) dense_ = forward + backward;
    std::printf("| %lld | %s | %s | %.2f %% | %.3f | %.3f | %.1f | %lld |\n", static_cast<long long>(tokens_),
                r.what, name_of(t), 100 * pairs / all, forward, backward, dense_ / (forward + backward),
                static_cast<long long>(kib));
    std::fflush(stdout);
  }

 private:
  Tensor taken(Shape shape, DType t) {
    memory_.push_back(reserve(shape.numel() * size_of(t)));
    const Tensor x(memory_.back().get(), t, shape);
    fill_random(x.data, shape.numel(), t, memory_.size());
    return x;
  }

  std::int64_t tokens_;
  std::vector<std::int32_t> starts_;
  Team team_{1};
  Attention attention_{kernels_of(best_target()), team_};
  std::vector<Buffer> memory_;
  double dense_ = 0;
};

}  // namespace
}  // namespace ft::cpu

int main(int argc, char** argv) {
  using namespace ft::cpu;
  std::vector<std::int64_t> lengths{8192, 32768};
  if (argc > 1) lengths.clear();
  for (int i = 1; i < argc; ++i) lengths.push_back(std::stoll(argv[i]));
  std::printf("%s, one thread, 4 heads of 64 columns\n\n", name_of(best_target()));
  std::printf(
      "| tokens | layout | type | pairs kept | forward, s | gradient, s | times as fast | layout, KiB |\n");
  std::printf("|---|---|---|---|---|---|---|---|\n");
  for (const std::int64_t tokens : lengths)
    for (const ft::DType t : {ft::DType::f32, ft::DType::bf16}) {
      Bench bench(tokens);
      for (const Row& r : kRows) bench.row(r, t);
    }
}
