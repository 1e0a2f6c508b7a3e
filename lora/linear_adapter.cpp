#include "lora/linear_adapter.h"

#include "engine/ops/ops.h"
#include "engine/pass/context.h"

namespace ft::lora {

void drop_input(Ctx& c, Tensor y, Tensor x, float p, Random random, InputPart part) {
  c.numbers.each_run(x.rows(), [&](std::int64_t begin, std::int64_t end, std::int64_t number) {
    c.ops.run(op::Dropout{.y = y.slice(begin, end),
                          .x = x.slice(begin, end),
                          .p = p,
                          .random = random,
                          .first_row = number,
                          .first_column = part.first,
                          .columns = part.columns});
  });
}

}  // namespace ft::lora
