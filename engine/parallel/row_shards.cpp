#include "engine/parallel/row_shards.h"

#include "engine/core/divide.h"

namespace ft {

Batch filled_up(Batch b, std::int64_t n) {
  const std::int64_t all = round_up(b.tokens(), n);
  if (all == b.tokens()) return b;
  b.input_ids.resize(static_cast<std::size_t>(all));
  b.positions.resize(static_cast<std::size_t>(all));
  b.starts.push_back(static_cast<std::int32_t>(all));
  return b;
}

Tensor gather_rows(Ctx& c, Tensor own, std::string_view of) {
  Communicator& ranks = *c.tensor();
  const Tensor y = room_for_all_rows(c, own);
  Scope scratch(c.scratch);
  const Tensor all = y.dense() ? y : c.scratch.take(y.shape, y.dtype);
  c.ops.copy(own_rows(c, all), own);
  ranks.enter(of);
  ranks.all_gather(all, own_rows(c, all));
  if (all.data != y.data) c.ops.copy(y, all);
  return y;
}

Tensor own_rows(Ctx& c, Tensor all) {
  const std::int64_t n = all.rows() / c.tensor()->size();
  return all.slice(n * c.tensor()->rank(), n * (c.tensor()->rank() + 1));
}

Tensor room_for_all_rows(Ctx& c, Tensor own) {
  return c.temporary(own.rows() * c.tensor()->size(), own.cols());
}

// Rounds partial sums of narrower types once, as add_up (context.h) does: communicators add up only dense
// f32.
void add_up_rows(Ctx& c, Tensor own, Tensor parts, std::string_view of) {
  Scope scratch(c.scratch);
  Tensor all = parts;
  if (parts.dtype != DType::f32 || !parts.dense()) {
    all = c.scratch.take({parts.rows(), parts.cols()}, DType::f32);
    c.ops.run(op::Cast{.y = all, .x = parts});
  }
  const Tensor sum = own_rows(c, all);
  c.tensor()->enter(of);
  c.tensor()->reduce_scatter(sum, all);
  c.ops.run(op::Cast{.y = own, .x = sum});
}

}  // namespace ft
