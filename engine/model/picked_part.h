// Passes of a block over some of the rows (random-LTD, picked_rows.h); the other rows skip the block. For the
// members of Block see block_stack.h.
#pragma once
#include "engine/layers/keep.h"
#include "engine/layers/picked_rows.h"
#include "engine/ops/ops.h"
#include "engine/pass/context.h"

namespace ft {

template <class Block>
struct PickedPart {
  PickedRows picked;
  Tensor rows;                // picked.rows on the device
  typename Block::Side side;  // of the picked rows; refers to `picked`

  // y, x: all rows; see Block::forward.
  typename Block::Saved forward(Ctx& c, const Block& block, Tensor y, Tensor x, Keep keep) const {
    Scope scratch(c.scratch);
    const Tensor seen = c.temporary(rows.numel(), x.cols());
    const Tensor made = y ? c.temporary(rows.numel(), x.cols()) : Tensor{};
    c.ops.run(op::GatherRows{.y = seen, .x = x, .rows = rows});
    auto saved = block.forward(c, made, seen, side, keep);
    if (!y) return saved;
    c.ops.run(op::Cast{.y = y, .x = x});
    c.ops.run(op::ScatterRows{.y = y, .x = made, .rows = rows});
    return saved;
  }
  // d, x: all rows; see Block::backward. The gradient of rows that the block did not see stays in d
  // unchanged.
  void backward(Ctx& c, const Block& block, Tensor d, Tensor x, const typename Block::Saved& saved,
                bool input_grad) const {
    Scope scratch(c.scratch);
    const Tensor seen = c.temporary(rows.numel(), d.cols()), own = c.temporary(seen.rows(), d.cols());
    c.ops.run(op::GatherRows{.y = seen, .x = x, .rows = rows});
    c.ops.run(op::GatherRows{.y = own, .x = d, .rows = rows});
    block.backward(c, own, seen, saved, side, input_grad);
    if (input_grad) c.ops.run(op::ScatterRows{.y = d, .x = own, .rows = rows});
  }
};

}  // namespace ft
