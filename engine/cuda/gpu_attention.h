// op::Attention and its gradient on the GPU: lists the tiles of a batch, and gives heads to the kernels.
#pragma once
#include <span>
#include <vector>

#include "engine/cuda/gpu.h"
#include "engine/cuda/kernels/attention.h"
#include "engine/ops/ops.h"

namespace ft::cuda {

// Throws UserError (hardware) for heads that the GPU's kernels do not support.
void refuse_wide(const Heads&);

// The tiles of a batch's sequences. All layers have the same list. T5, however, needs three: its decoder
// alternates between self-attention and cross-attention, and the encoder has another. So several lists stay
// on the GPU, one after another.
class TileLists {
 public:
  static constexpr std::size_t kMost = 8;
  struct List {
    std::vector<std::int32_t> starts, key_starts;
    std::int32_t step;  // rows of a tile
    bool causal;
    std::int64_t first, queries, keys;  // tiles before the list; tiles of queries, then of keys
  };

  // room: number of tiles of all lists together.
  explicit TileLists(std::int64_t room) : room_(room) {}
  // Returns the list for a mask. Calls upload(first, tiles) for a new one; if there is no room, all others
  // are dropped first.
  template <class F>
  const List& of(const Mask& mask, std::int32_t step, F upload) {
    for (const List& l : lists_)
      if (is_of(l, mask, step)) return l;
    List made = make(mask, step);
    upload(made.first, std::span<const Tile>(tiles_));
    return lists_.emplace_back(std::move(made));
  }

 private:
  static bool is_of(const List&, const Mask&, std::int32_t step);
  List make(const Mask&, std::int32_t step);
  void add_tiles(const List&, bool queries);

  std::int64_t room_;
  std::vector<List> lists_;
  std::vector<Tile> tiles_;  // of the last list that was made
};

class GpuAttention {
 public:
  struct Workspace {
    std::byte* tiles;
    std::int64_t tile_bytes;
    std::byte* delta;
    std::int64_t delta_bytes;
    std::int64_t cache_bytes;
  };
  GpuAttention(Gpu& gpu, const Workspace& w)
      : gpu_(gpu), workspace_(w), lists_(w.tile_bytes / std::int64_t{sizeof(Tile)}) {}

  void forward(const op::Attention&);
  void backward(const op::AttentionGrad&);

 private:
  template <class Op>
  Attention call_of(const Op& op);

  Gpu& gpu_;
  Workspace workspace_;
  TileLists lists_;
};

}  // namespace ft::cuda
