// Measures the gated delta rule and its gradient, for the heads of Qwen3.5 and Qwen3-Next.
// bench_delta_rule [tokens...]: markdown on standard output. Times are CPU time of one thread.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/cpu_bench.h"
#include "engine/cpu/cpu_ops.h"
#include "engine/ops/delta_room.h"

namespace ft::cpu {
namespace {

constexpr DeltaHeads kHeads{16, 32, 128, 128};

// Operands of the rule for one sequence, and memory for its gradient.
class Operands {
 public:
  Operands(Ops& ops, std::int64_t rows, DType dtype) : ops_(ops), rows_(rows) {
    q = random(kHeads.key_columns(), dtype);
    k = random(kHeads.key_columns(), dtype);
    v = random(kHeads.value_columns(), dtype);
    o = random(kHeads.value_columns(), dtype);
    dq = random(kHeads.key_columns(), dtype);
    dk = random(kHeads.key_columns(), dtype);
    dv = random(kHeads.value_columns(), dtype);
    for (Tensor* t : {&g, &beta, &dg, &dbeta}) *t = random(kHeads.values, DType::f32);
    ops.run(op::Fill{g, -0.05f});
    ops.run(op::Fill{beta, 0.5f});
    first = take(rows, 1, DType::i32);
    std::fill_n(first.as<std::int32_t>(), rows, 0);
    states = take(std::max<std::int64_t>(1, rows / kDeltaChunk), kHeads.state(), DType::f32);
    work = take(delta_work_rows(kHeads, rows), delta_work(kHeads, true), DType::f32);
  }
  op::DeltaRule rule() const {
    return {
        .o = o, .work = work, .q = q, .k = k, .v = v, .g = g, .beta = beta, .first = first, .heads = kHeads};
  }
  op::DeltaRuleGrad gradient() const {
    return {.dq = dq,
            .dk = dk,
            .dv = dv,
            .dg = dg,
            .dbeta = dbeta,
            .states = states,
            .work = work,
            .o_grad = o,
            .q = q,
            .k = k,
            .v = v,
            .g = g,
            .beta = beta,
            .first = first,
            .heads = kHeads};
  }

 private:
  Tensor take(std::int64_t rows, std::int64_t cols, DType dtype) {
    memory_.push_back(ops_.allocate(rows * cols * size_of(dtype)));
    return {memory_.back().get(), dtype, {rows, cols}};
  }
  Tensor random(std::int64_t cols, DType dtype) {
    const Tensor t = take(rows_, cols, dtype);
    fill_random(t.data, t.numel(), dtype, memory_.size());
    return t;
  }

  Ops& ops_;
  std::int64_t rows_;
  std::vector<Buffer> memory_;

 public:
  Tensor q, k, v, o, dq, dk, dv, g, beta, dg, dbeta, first, states, work;
};

// Prints the best of five times of an operation.
void measure(Ops& ops, const Team& team, const auto& op, double tile) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) best = std::min(best, time_of(team, [&] { ops.run(op); }));
  std::printf(" %.1f ms | %.0f %% |", best * 1e3, 100 * op.flops() / best / tile);
}

void run(const std::vector<std::int64_t>& tokens) {
  CpuOps ops(1);
  Team team(1);
  std::printf("%s\n\n| tokens | type | forward | of the f32 tile | gradient | of the f32 tile |\n",
              name_of(best_target()));
  std::printf("|---|---|---|---|---|---|\n");
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t rows : tokens) {
      const Operands x(ops, rows, dtype);
      const double tile = tile_rate(kernels_of(best_target()), team, DType::f32);
      std::printf("| %lld | %s |", static_cast<long long>(rows), name_of(dtype));
      measure(ops, team, x.rule(), tile);
      measure(ops, team, x.gradient(), tile);
      std::printf("\n");
    }
}

}  // namespace
}  // namespace ft::cpu

int main(int count, char** arguments) {
  std::vector<std::int64_t> tokens;
  for (int i = 1; i < count; ++i) tokens.push_back(std::atoll(arguments[i]));
  ft::cpu::run(tokens.empty() ? std::vector<std::int64_t>{1024} : tokens);
}
