#include "engine/nn/weight.h"

namespace ft {

void Weight::add_grad(Ctx& c, Tensor dy, Tensor x) const {
  const Tensor dw = grad();
  if (!dw) return;
  const Term term = inputs_first() ? Term{x, Trans::yes, dy, Trans::no} : Term{dy, Trans::yes, x, Trans::no};
  product(c.ops, dw, term, 1, dw);
}

FourBitWeight::FourBitWeight(const std::string& name, Shape s, FourBitForm f) : form(f), shape(s) {
  const std::int64_t n = shape.numel(), blocks = form.blocks(n);
  const auto part = [](std::string called, std::int64_t size, DType dtype) {
    return Parameter{.name = std::move(called), .shape = {size}, .dtype = dtype, .stands_for = 0};
  };
  codes = part(name, (n + 1) / 2, DType::u8);
  codes.stands_for = n;
  absmax = part(name + ".absmax", blocks, form.nested ? DType::u8 : DType::f32);
  if (!form.nested) return;
  nested_absmax = part(name + ".nested_absmax", (blocks + kNestedBlock - 1) / kNestedBlock, DType::f32);
  nested_offset = part(name + ".nested_offset", 1, DType::f32);
}

Term FourBitWeight::times(Tensor x, Trans t) const {
  return {x,
          Trans::no,
          {},
          t,
          {form, shape, codes.value, absmax.value, nested_absmax.value, nested_offset.value}};
}

void FourBitWeight::visit(Visitor& v) {
  v.parameter(codes);
  v.parameter(absmax);
  if (!form.nested) return;
  v.parameter(nested_absmax);
  v.parameter(nested_offset);
}

}  // namespace ft
