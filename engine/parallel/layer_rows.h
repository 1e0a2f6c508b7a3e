// The seam around a layer of a block, attention or MLP: it enters with this rank's rows of the residual
// stream and leaves with them. In between the layer computes on all rows (row_shards.h). A rank that has all
// rows anyway passes them on.
#pragma once
#include <string_view>

#include "engine/parallel/row_shards.h"

namespace ft {

// y = residual + layer(x). layer(y, x, residual) computes it for all rows; without the residual if it is
// empty. of: the layer's module, for messages.
void layer_forward(Ctx& c, std::string_view of, Tensor y, Tensor x, Tensor residual, const auto& layer) {
  Scope scratch(c.scratch);
  if (!c.shards) return layer(y, x, residual);
  const PartialSums sums(c);
  const Tensor parts = room_for_all_rows(c, y);
  layer(parts, gather_rows(c, x, of), Tensor{});
  add_up_rows(c, y, parts, of);
  if (residual) c.ops.run(op::Add{y, residual});
}

// dx = the gradient of x, given dy (dx empty: not wanted; x empty: not read). layer(dx, dy, x) computes it
// for all rows.
void layer_backward(Ctx& c, std::string_view of, Tensor dx, Tensor dy, Tensor x, const auto& layer) {
  Scope scratch(c.scratch);
  if (!c.shards) return layer(dx, dy, x);
  const PartialSums sums(c);
  const Tensor parts = dx ? room_for_all_rows(c, dx) : Tensor{}, all_x = x ? gather_rows(c, x, of) : Tensor{};
  layer(parts, gather_rows(c, dy, of), all_x);
  if (dx) add_up_rows(c, dx, parts, of);
}

}  // namespace ft
