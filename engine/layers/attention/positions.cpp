#include "engine/layers/attention/positions.h"

#include "engine/ops/ops.h"

namespace ft {

void Positions::rotate(Ctx& c, Tensor x, std::int64_t width, Rotation by, float sign) const {
  if (by == Rotation::none || !cos) return;
  const bool local = by == Rotation::local;
  c.ops.run(op::Rope{.x = x,
                     .cos = local ? local_cos : cos,
                     .sin = local ? local_sin : sin,
                     .positions = positions,
                     .head_width = width,
                     .sign = sign});
}

}  // namespace ft
