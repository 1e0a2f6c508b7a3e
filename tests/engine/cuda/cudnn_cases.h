// An attention of every kind that cuDNN computes, and its results with given Ops.
#pragma once
#include "tests/engine/cuda/both.h"
#include "tests/support/attention_pair.h"

namespace ft::cuda {

struct CudnnCase {
  std::vector<std::int32_t> starts, key_starts{};
  Heads heads{4, 2, 64};
  DType type = DType::bf16;
  bool causal = true;
  std::int64_t window = 0, reach = 0;  // reach > 0: a bias of 2 reach + 1 distances

  std::string name() const {
    return str(starts.size() - 1, " sequences, ", starts.back(), " rows, ", heads.query, "/", heads.key_value,
               " heads of ", heads.width, ", ", name_of(type), causal ? ", causal" : "",
               key_starts.empty() ? "" : ", cross", window ? ", window" : "", reach ? ", bias" : "");
  }

  // Returns all tensors of a forward pass and a gradient: q, k, v, dy, y, lse, dq, dk, dv, and the bias.
  std::vector<std::vector<double>> results(Ops& ops) const {
    const std::int64_t rows = starts.back(), keys = key_starts.empty() ? rows : key_starts.back(),
                       width = heads.query * heads.width, key_width = heads.key_value * heads.width;
    std::list<Matrix> host;
    std::list<OnGpu> gpu;
    const auto tensor = [&](std::int64_t r, std::int64_t c, DType t, std::int64_t pad) {
      const std::uint64_t seed = host.size() + 1;
      return gpu.emplace_back(ops, host.emplace_back(r, c, t, pad).randomize(seed), 0).tensor;
    };
    const Tensor q = tensor(rows, width, type, 32), k = tensor(keys, key_width, type, 64),
                 v = tensor(keys, key_width, type, 32), dy = tensor(rows, width, type, 8),
                 y = tensor(rows, width, type, 16), lse = tensor(heads.query, rows, DType::f32, 0),
                 dq = tensor(rows, width, type, 24), dk = tensor(keys, key_width, type, 40),
                 dv = tensor(keys, key_width, type, 48), bias = tensor(2 * reach + 1, heads.query, type, 0);
    const Mask mask{.starts = starts, .causal = causal, .window = window, .key_starts = key_starts};
    const Scores scores{.scale = 0.1f, .bias = reach > 0 ? bias : Tensor{}};
    const AttentionPair pair{.y = y,
                             .lse = lse,
                             .q = q,
                             .k = k,
                             .v = v,
                             .dy = dy,
                             .dq = dq,
                             .dk = dk,
                             .dv = dv,
                             .heads = heads,
                             .mask = mask,
                             .scores = scores};
    ops.run(pair.forward());
    ops.run(pair.backward());
    std::vector<std::vector<double>> out;
    auto h = host.begin();
    for (const OnGpu& g : gpu) {
      g.download(*h);
      EXPECT_TRUE(h->intact()) << "bytes between rows changed";
      out.push_back((h++)->values());
    }
    return out;
  }
};

inline std::vector<CudnnCase> cudnn_cases() {
  return {{.starts = {0, 256}},
          {.starts = {0, 128, 256, 384}, .heads = {2, 2, 64}, .causal = false},
          {.starts = {0, 5, 205, 206, 336}},
          {.starts = {0, 100, 230}, .heads = {2, 2, 80}, .type = DType::f16, .causal = false},
          {.starts = {0, 256}, .window = 100},
          {.starts = {0, 3, 203, 403}, .window = 17},
          {.starts = {0, 128, 256}, .key_starts = {0, 256, 512}, .heads = {2, 2, 64}, .causal = false},
          {.starts = {0, 130, 140}, .key_starts = {0, 5, 205}, .heads = {2, 1, 64}, .causal = false},
          {.starts = {0, 128, 256}, .heads = {3, 3, 64}, .causal = false, .reach = 40},
          {.starts = {0, 70, 230}, .heads = {2, 2, 64}, .reach = 150}};
}

}  // namespace ft::cuda
