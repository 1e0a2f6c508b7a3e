#include "engine/layers/routing.h"

#include "engine/ops/ops.h"

namespace ft {

void RouterBalanceLoss::add(Ctx& c, Tensor loss, const RouterStatistics& s, float scale) const {
  c.ops.enter("router balance");
  c.ops.run(op::RouterBalance{.loss = loss,
                              .slope = s.slope,
                              .starts = s.starts,
                              .sums = s.sums,
                              .choices = choices,
                              .weight = coefficient * c.tokens_weight,
                              .scale = scale});
}

}  // namespace ft
