#include "engine/parallel/row_shards.h"

#include "engine/core/divide.h"
#include "engine/ops/ops.h"

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
  const Tensor y = c.temporary(own.rows() * ranks.size(), own.cols());
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

Tensor LayerRows::parts(Tensor own) {
  return c_.shards && own ? c_.temporary(own.rows() * c_.tensor()->size(), own.cols()) : own;
}

// Rounds partial sums of narrower types once, as add_up (cut.h) does: communicators add up only dense f32.
void LayerRows::add_up(Tensor own, Tensor parts, Tensor residual) {
  if (!c_.shards || !own) return;
  Scope scratch(c_.scratch);
  Tensor all = parts;
  if (parts.dtype != DType::f32 || !parts.dense()) {
    all = c_.scratch.take({parts.rows(), parts.cols()}, DType::f32);
    c_.ops.run(op::Cast{.y = all, .x = parts});
  }
  const Tensor sum = own_rows(c_, all);
  c_.tensor()->enter(of_);
  c_.tensor()->reduce_scatter(sum, all);
  c_.ops.run(op::Cast{.y = own, .x = sum});
  if (residual) c_.ops.run(op::Add{own, residual});
}

}  // namespace ft
