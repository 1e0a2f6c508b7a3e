#include "engine/layers/attention/sparse_attention.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/ops/ops.h"

namespace ft {

SparseAttention::SparseAttention(const SparseAttentionConfig& c, AttentionDirection direction,
                                 std::int64_t heads) {
  check_sparse_attention(c);
  if (c.mode != SparsityMode::dense) layout_.emplace(make_layout(c, direction, heads));
}

BlockMask SparseAttention::upload(Ctx& c, std::int64_t longest, bool used) const {
  if (!layout_) return {};
  const std::int64_t heads = layout_->heads(), most = layout_->blocks() * layout_->block(),
                     rows = ceil_div(std::max<std::int64_t>(1, longest), layout_->block());
  if (longest > most)
    throw UserError(Exit::config, str("model.sparse_attention.max_seq_length: the layout is for ", most,
                                      " tokens and a sequence has up to ", longest, "; set it to ", longest));
  BlockMask mask{&*layout_, c.saved.take({heads * rows, layout_->words()}, DType::i32)};
  for (std::int64_t h = 0; h < heads && used; ++h)
    c.ops.upload(mask.bits.slice(h * rows, (h + 1) * rows), layout_->row(h, 0).data());
  return mask;
}

void SparseAttention::restrict(Ctx& c, KeyRanges& ranges, const std::vector<std::int32_t>& count) const {
  if (!layout_) return;
  std::vector<std::uint32_t> bits;
  for (const std::int32_t n : count)
    for (std::int64_t h = 0; h < layout_->heads(); ++h) {
      const auto row = layout_->row(h, (n - 1) / layout_->block());
      bits.insert(bits.end(), row.begin(), row.end());
    }
  const auto rows = static_cast<std::int64_t>(count.size()) * layout_->heads();
  ranges.blocks = c.saved.take({rows, layout_->words()}, DType::i32);
  ranges.block = layout_->block();
  c.ops.upload(ranges.blocks, bits.data());
}

}  // namespace ft
