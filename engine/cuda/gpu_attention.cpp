#include "engine/cuda/gpu_attention.h"

#include <algorithm>

#include "engine/cuda/products.h"

namespace ft::cuda {
namespace {

void refuse_wide(Heads heads) {
  if (heads.width > kAttentionWidth)
    throw UserError(Exit::hardware,
                    str("device cuda: attention heads of ", heads.width,
                        " columns; the GPU's kernels go up to ", kAttentionWidth, "; use device=cpu"));
}

}  // namespace

// All layers of a batch have the same sequences: their tiles are uploaded once. Late tiles of a sequence see
// the most keys: those first, so that no block is left with a long one at the end.
Attention GpuAttention::call_of(const Tensor& q, const Tensor& k, const Tensor& v, Heads heads,
                                const Mask& mask, float scale) {
  refuse_wide(heads);
  const auto step = static_cast<std::int32_t>(attention_tile(q.dtype, heads.width));
  if (step != step_ || !std::equal(starts_.begin(), starts_.end(), mask.starts.begin(), mask.starts.end())) {
    tiles_.clear();
    for (std::size_t s = 1; s < mask.starts.size(); ++s) {
      const std::int32_t begin = mask.starts[s - 1], end = mask.starts[s];
      for (std::int32_t tile = (end - begin + step - 1) / step; tile-- > 0;)
        tiles_.push_back({begin, end, begin + tile * step});
    }
    const auto bytes = static_cast<std::int64_t>(tiles_.size() * sizeof(Tile));
    require(bytes <= workspace_.tile_bytes, "attention: more tiles than the workspace has room for");
    starts_.clear();  // were the upload to fail
    gpu_.upload(workspace_.tiles, tiles_.data(), bytes);
    step_ = step;
    starts_.assign(mask.starts.begin(), mask.starts.end());
  }
  Attention c{};
  c.q = view_of(q);
  c.k = view_of(k);
  c.v = view_of(v);
  c.delta = reinterpret_cast<float*>(workspace_.delta);
  c.tiles = reinterpret_cast<const Tile*>(workspace_.tiles);
  c.n_tiles = static_cast<std::int64_t>(tiles_.size());
  c.group = static_cast<int>(heads.query / heads.key_value);
  c.width = static_cast<int>(heads.width);
  c.key_heads = static_cast<int>(heads.key_value);
  c.causal = mask.causal;
  c.window = mask.window;
  c.scale = scale;
  return c;
}

void GpuAttention::forward(Tensor y, Tensor lse, Tensor q, Tensor k, Tensor v, Heads heads, const Mask& mask,
                           float scale) {
  Attention c = call_of(q, k, v, heads, mask, scale);
  c.y = view_of(y);
  c.lse = lse.as<float>();
  attention(gpu_.stream(), c);
}

// As many key heads at a time as their sums of dy y fit the workspace.
void GpuAttention::backward(Tensor dq, Tensor dk, Tensor dv, Tensor dy, Tensor y, Tensor lse, Tensor q,
                            Tensor k, Tensor v, Heads heads, const Mask& mask, float scale) {
  Attention c = call_of(q, k, v, heads, mask, scale);
  c.y = view_of(y);
  c.lse = lse.as<float>();
  c.dy = view_of(dy);
  c.dq = view_of(dq);
  c.dk = view_of(dk);
  c.dv = view_of(dv);
  const std::int64_t one = c.group * q.rows() * size_of(DType::f32);
  const std::int64_t most = one == 0 ? heads.key_value : workspace_.delta_bytes / one;
  require(most > 0, "attention_grad: a sequence too long for the workspace");
  for (std::int64_t first = 0; first < heads.key_value; first += most) {
    c.first_key_head = static_cast<int>(first);
    c.key_heads = static_cast<int>(std::min(most, heads.key_value - first));
    attention_grad(gpu_.stream(), c);
  }
}

void GpuAttention::ranges(Tensor y, Tensor q, Tensor k, Tensor v, Heads heads, const KeyRanges& ranges,
                          float scale, std::int32_t* wrong) const {
  refuse_wide(heads);
  attention_ranges(
      gpu_.stream(),
      {view_of(y), view_of(q), view_of(k), view_of(v), ranges.first.as<std::int32_t>(),
       ranges.count.as<std::int32_t>(), static_cast<int>(heads.query),
       static_cast<int>(heads.query / heads.key_value), static_cast<int>(heads.width), ranges.window, scale},
      wrong);
}

}  // namespace ft::cuda
