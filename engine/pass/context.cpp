#include "engine/pass/context.h"

#include "engine/ops/ops.h"

namespace ft {

void Ctx::begin(Phase phase) { ops.phases().turn_to(phase); }

Tensor upload(Ctx& c, const std::vector<std::int32_t>& values) {
  Tensor t = c.saved.take({static_cast<std::int64_t>(values.size())}, DType::i32);
  c.ops.upload(t, values.data());
  return t;
}

}  // namespace ft
