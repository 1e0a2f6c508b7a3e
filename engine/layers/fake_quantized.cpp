#include "engine/layers/fake_quantized.h"

#include "engine/ops/ops.h"

namespace ft {

Term fake_quantized(Ctx& c, const Linear& l, Tensor x, Trans t) {
  const Term own = l.weight->times({}, Trans::no);
  require(!own.coded() && own.tb == Trans::no, "fake quantization of a weight that is not dense (out, in)");
  const Tensor made = c.scratch.take(own.b.shape, own.b.dtype);
  Scope scratch(c.scratch);
  Tensor whole = own.b;
  if (l.adapter && c.adapters) {
    whole = made.dtype == DType::f32 ? made : c.scratch.take(own.b.shape, DType::f32);
    c.ops.run(op::Cast{.y = whole, .x = own.b});
    l.adapter->merge_into(c, whole);
  }
  c.ops.run(op::FakeQuantize{.y = made, .x = whole, .format = *l.fake_format});
  return {x, Trans::no, made, t};
}

}  // namespace ft
