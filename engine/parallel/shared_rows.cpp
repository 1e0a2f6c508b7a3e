#include "engine/parallel/shared_rows.h"

#include "engine/ops/ops.h"

namespace ft {

Tensor SharedRows::spread(Ctx& c, Tensor x, bool once) const {
  Tensor y = c.scratch.take({whole(), x.cols()}, x.dtype);
  c.ops.run(op::GatherRows{.y = y, .x = x, .rows = rows});
  if (!once || again.numel() == 0) return y;
  Scope scratch(c.scratch);
  Tensor none = c.scratch.take({again.numel(), x.cols()}, x.dtype);
  c.ops.run(op::Fill{none, 0});
  c.ops.run(op::ScatterRows{.y = y, .x = none, .rows = again});
  return y;
}

void SharedRows::take_first(Ctx& c, Tensor y, Tensor x) const {
  c.ops.run(op::GatherRows{.y = y, .x = x, .rows = first});
}

// Adds the only copy that a row has, because at most two sequences share it.
void SharedRows::add_up(Ctx& c, Tensor y, Tensor x) const {
  take_first(c, y, x);
  if (again.numel() == 0) return;
  Scope scratch(c.scratch);
  Tensor copies = c.scratch.take({again.numel(), x.cols()}, x.dtype),
         all = c.scratch.take({y.rows(), x.cols()}, x.dtype);
  c.ops.run(op::GatherRows{.y = copies, .x = x, .rows = again});
  c.ops.run(op::Fill{all, 0});
  c.ops.run(op::ScatterRows{.y = all, .x = copies, .rows = row_again});
  c.ops.run(op::Add{y, all});
}

SharedRows upload_shared(Ctx& c, const Batch& b) {
  if (b.whole_starts.empty()) return {};
  std::vector<std::int32_t> first(b.input_ids.size(), -1), again, row_again;
  for (std::size_t w = 0; w < b.whole_rows.size(); ++w) {
    std::int32_t& place = first[static_cast<std::size_t>(b.whole_rows[w])];
    if (place < 0) {
      place = static_cast<std::int32_t>(w);
      continue;
    }
    again.push_back(static_cast<std::int32_t>(w));
    row_again.push_back(b.whole_rows[w]);
  }
  return {b.whole_starts, upload(c, b.whole_rows), upload(c, first), upload(c, again), upload(c, row_again)};
}

}  // namespace ft
