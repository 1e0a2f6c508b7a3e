#include "engine/layers/dropout.h"

#include "engine/ops/ops.h"

namespace ft {

void Dropout::apply(Ctx& c, Tensor x, std::string_view name) const {
  if (!active(c)) return;
  each_run(c, x.rows(), name, 0, 0, [&](std::int64_t begin, std::int64_t end, const op::Drop& drop) {
    const Tensor part = x.slice(begin, end);
    c.ops.run(op::Dropout{.y = part, .x = part, .p = p, .random = drop.random, .first_row = drop.first_row});
  });
}

void Dropout::add(Ctx& c, Tensor y, Tensor x, std::string_view name) const {
  each_run(c, y.rows(), name, 0, 0, [&](std::int64_t begin, std::int64_t end, const op::Drop& drop) {
    c.ops.run(op::Add{.y = y.slice(begin, end), .x = x.slice(begin, end), .drop = drop});
  });
}

}  // namespace ft
