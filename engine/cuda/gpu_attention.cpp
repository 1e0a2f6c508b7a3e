#include "engine/cuda/gpu_attention.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft::cuda {
void refuse_wide(const Heads& heads) {
  if (heads.width > kAttentionWidth)
    throw UserError(Exit::hardware,
                    str("device cuda: attention heads of ", heads.width,
                        " columns; the GPU kernels support up to ", kAttentionWidth, "; use device=cpu"));
}

bool TileLists::is_of(const List& l, const Mask& mask, std::int32_t step) {
  const std::span<const std::int32_t> keys = mask.starts_of_keys();
  return l.step == step && l.causal == mask.causal && std::ranges::equal(l.starts, mask.starts) &&
         std::ranges::equal(l.key_starts, keys);
}

TileLists::List TileLists::make(const Mask& mask, std::int32_t step) {
  const std::span<const std::int32_t> keys = mask.starts_of_keys();
  List l{{mask.starts.begin(), mask.starts.end()}, {keys.begin(), keys.end()}, step, mask.causal, 0, 0, 0};
  tiles_.clear();
  add_tiles(l, true);
  l.queries = std::ssize(tiles_);
  add_tiles(l, false);
  l.keys = std::ssize(tiles_) - l.queries;
  require(std::ssize(tiles_) <= room_, "attention: more tiles than the workspace has room for");
  if (!lists_.empty()) l.first = lists_.back().first + lists_.back().queries + lists_.back().keys;
  if (lists_.size() == kMost || l.first + std::ssize(tiles_) > room_) {
    lists_.clear();
    l.first = 0;
  }
  return l;
}

// Appends a batch's tiles, those that see the most first, so that no block has a long tile at the end: with a
// causal mask the last queries and the first keys of the longest sequences.
void TileLists::add_tiles(const List& l, bool queries) {
  const std::vector<std::int32_t>&starts = queries ? l.starts : l.key_starts,
        &others = queries ? l.key_starts : l.starts;
  const std::size_t listed = tiles_.size();
  for (std::size_t s = 1; s < starts.size(); ++s)
    for (std::int32_t first = starts[s - 1]; first < starts[s]; first += l.step)
      tiles_.push_back({starts[s - 1], starts[s], first, others[s - 1], others[s]});
  const auto seen = [&](const Tile& t) {
    if (!l.causal) return t.to - t.from;
    return queries ? std::min(t.first + l.step, t.end) - t.begin : t.end - t.first;
  };
  std::stable_sort(tiles_.begin() + static_cast<std::ptrdiff_t>(listed), tiles_.end(),
                   [&](const Tile& a, const Tile& b) { return seen(a) > seen(b); });
}

template <class Op>
Attention GpuAttention::call_of(const Op& op) {
  const Mask& mask = op.mask;
  refuse_wide(op.heads);
  Attention c{};
  c.q = view_of(op.q);
  c.k = view_of(op.k);
  c.v = view_of(op.v);
  c.y = view_of(op.y);
  c.lse = op.lse.template as<float>();
  c.delta = reinterpret_cast<float*>(workspace_.delta);
  c.group = static_cast<int>(op.heads.query / op.heads.key_value);
  c.width = static_cast<int>(op.heads.width);
  c.key_heads = static_cast<int>(op.heads.key_value);
  c.causal = mask.causal;
  c.window = mask.window;
  c.scale = op.scores.scale;
  c.cap = op.scores.cap;
  c.bias = view_of(op.scores.bias);
  c.dropout = op.scores.dropout;
  c.random = op.scores.random.key;
  c.first_head = op.scores.first_head;
  c.all_heads = op.scores.all_heads > 0 ? op.scores.all_heads : op.heads.query;
  if (const BlockMask& b = mask.blocks) c.blocks = blocks_of(view_of(b.bits), b.rows(), b.layout->block());
  c.cache = workspace_.cache_bytes;
  c.hopper = gpu_.capability() == 9;
  const TileLists::List& list =
      lists_.of(mask, attention_tile(c), [&](std::int64_t first, std::span<const Tile> tiles) {
        const std::int64_t size = sizeof(Tile);
        gpu_.upload(workspace_.tiles + first * size, tiles.data(), std::ssize(tiles) * size);
      });
  c.tiles = reinterpret_cast<const Tile*>(workspace_.tiles) + list.first;
  c.n_tiles = list.queries;
  c.key_tiles = c.tiles + c.n_tiles;
  c.n_key_tiles = list.keys;
  return c;
}

void GpuAttention::forward(const op::Attention& op) { attention(gpu_.stream(), call_of(op)); }

// Computes as many key heads at a time as their sums of dy y fit the workspace; the kernels may use the rest
// of it.
void GpuAttention::backward(const op::AttentionGrad& op) {
  Attention c = call_of(op);
  c.dy = view_of(op.dy);
  c.dq = view_of(op.dq);
  c.dk = view_of(op.dk);
  c.dv = view_of(op.dv);
  c.dbias = view_of(op.dbias);
  const std::int64_t one = c.group * c.q.rows * size_of(DType::f32), heads = op.heads.key_value;
  const std::int64_t most = one == 0 ? heads : workspace_.delta_bytes / one;
  require(most > 0, "attention_grad: a sequence too long for the workspace");
  for (std::int64_t first = 0; first < heads; first += most) {
    c.first_key_head = static_cast<int>(first);
    c.key_heads = static_cast<int>(std::min(most, heads - first));
    c.spare = c.delta + c.key_heads * c.group * c.q.rows;
    c.spare_floats = (workspace_.delta_bytes - c.key_heads * one) / size_of(DType::f32);
    attention_grad(gpu_.stream(), c);
  }
}

}  // namespace ft::cuda
