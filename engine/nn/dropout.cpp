#include "engine/nn/dropout.h"

#include "engine/ops/ops.h"

namespace ft {

void Dropout::apply(Ctx& c, Tensor x, std::string_view name, std::int64_t first_column,
                    std::int64_t columns) const {
  if (!active(c)) return;
  c.numbers.each_run(x.rows(), [&](std::int64_t begin, std::int64_t end, std::int64_t number) {
    c.ops.run(op::Dropout{.y = x.slice(begin, end),
                          .x = x.slice(begin, end),
                          .p = p,
                          .random = mask(c, name),
                          .first_row = number,
                          .first_column = first_column,
                          .columns = columns});
  });
}

}  // namespace ft
