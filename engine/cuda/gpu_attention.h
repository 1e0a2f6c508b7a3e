// op::Attention and its gradient on the GPU: lists the tiles of a batch, and hands heads to the kernels.
#pragma once
#include <vector>

#include "engine/cuda/gpu.h"
#include "engine/cuda/kernels/attention.h"
#include "engine/ops/ops.h"

namespace ft::cuda {

// UserError(Exit::hardware) for heads that the GPU's kernels do not take.
void refuse_wide(const Heads&);

class GpuAttention {
 public:
  struct Workspace {
    std::byte* tiles;
    std::int64_t tile_bytes;
    std::byte* delta;
    std::int64_t delta_bytes;
    std::int64_t cache_bytes;
  };
  GpuAttention(Gpu& gpu, const Workspace& w) : gpu_(gpu), workspace_(w) {}

  void forward(const op::Attention&);
  void backward(const op::AttentionGrad&);

 private:
  template <class Op>
  Attention call_of(const Op& op);
  void list_tiles(std::span<const std::int32_t> starts, std::span<const std::int32_t> others, bool queries);

  Gpu& gpu_;
  Workspace workspace_;
  std::vector<std::int32_t> starts_, key_starts_;  // of the batch whose tiles are on the GPU
  std::int32_t step_ = 0;                          // rows of a tile
  bool causal_ = false;
  std::vector<Tile> tiles_;  // of the queries, then of the keys
  std::size_t query_tiles_ = 0;
};

}  // namespace ft::cuda
