// Sparse attention of a model: its layout, and the mask of each pass on the device.
#pragma once
#include <optional>
#include <vector>

#include "engine/layers/attention/sparse_layout.h"
#include "engine/ops/attention.h"
#include "engine/pass/context.h"

namespace ft {

class SparseAttention {
 public:
  SparseAttention() = default;  // dense
  // Uses the same layout for all layers.
  SparseAttention(const SparseAttentionConfig&, AttentionDirection, std::int64_t heads);

  // The mask for sequences of up to `longest` tokens, in c.saved. used: false if the pass does not read it;
  // memory is taken in any case. Throws UserError (config) for sequences longer than the layout.
  BlockMask upload(Ctx& c, std::int64_t longest, bool used = true) const;
  // Restricts `ranges`, of a cache's rows, to the blocks of the layout. Row i sees count[i] tokens, its own
  // last.
  void restrict(Ctx& c, KeyRanges& ranges, const std::vector<std::int32_t>& count) const;

 private:
  std::optional<BlockLayout> layout_;
};

}  // namespace ft
