// Sparse attention of a model: its layout, and what each pass needs of it on the device.
#pragma once
#include <optional>
#include <vector>

#include "engine/layers/sparse_layout.h"
#include "engine/ops/attention.h"
#include "engine/pass/context.h"

namespace ft {

class SparseAttention {
 public:
  SparseAttention() = default;  // dense
  // The same layout for all layers.
  SparseAttention(const SparseAttentionConfig&, AttentionDirection, std::int64_t heads);

  // The mask for whole sequences of up to `longest` tokens, in c.saved. `used`: whether the pass reads it;
  // memory for it is taken in any case. UserError(Exit::config) for sequences longer than the layout.
  BlockMask upload(Ctx& c, std::int64_t longest, bool used = true) const;
  // Adds to `ranges`, of a cache's rows, what the row that sees count[i] tokens, its own the last, sees.
  void restrict(Ctx& c, KeyRanges& ranges, const std::vector<std::int32_t>& count) const;

 private:
  std::optional<BlockLayout> layout_;
};

}  // namespace ft
