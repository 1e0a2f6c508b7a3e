#include "engine/layers/attention/positions.h"

#include "engine/ops/ops.h"

namespace ft {

std::vector<std::int32_t> first_rows(std::span<const std::int32_t> starts) {
  std::vector<std::int32_t> first;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    first.resize(static_cast<std::size_t>(starts[i + 1]), starts[i]);
  return first;
}

void Positions::rotate(Ctx& c, Tensor q, Tensor k, std::int64_t width, Rotation by, float sign) const {
  if (by == Rotation::none || !cos) return;
  const bool local = by == Rotation::local;
  c.ops.run(op::Rope{.x = q,
                     .more = k,
                     .cos = local ? local_cos : cos,
                     .sin = local ? local_sin : sin,
                     .positions = positions,
                     .head_width = width,
                     .sign = sign});
}

}  // namespace ft
