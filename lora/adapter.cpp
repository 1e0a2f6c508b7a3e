#include "lora/adapter.h"

namespace ft::lora {

LoraAdapter::LoraAdapter(const std::string& module, std::int64_t in, std::int64_t out, std::int64_t rank,
                         float scale, float dropout, DType dtype)
    : a{.name = module + ".lora_A.weight", .shape = {rank, in}, .dtype = dtype, .trainable = true},
      b{.name = module + ".lora_B.weight", .shape = {out, rank}, .dtype = dtype, .trainable = true},
      scale_(scale),
      dropout_(dropout) {}

// The input that A sees. The mask is a function of the step and the name, so that backward makes the same
// again.
Tensor LoraAdapter::dropped(Ctx& c, Tensor x) const {
  if (dropout_ == 0 || !c.train) return x;
  Tensor y = c.temporary(x.rows(), x.cols());
  c.ops.dropout(y, x, dropout_, mask(c));
  return y;
}

Tensor LoraAdapter::forward(Ctx& c, Sum& y, Tensor x) const {
  Tensor u = c.saved.take({x.rows(), rank()}, c.dtype);
  product(c.ops, u, {dropped(c, x), Trans::no, a.value, Trans::yes}, scale_);
  y.add({u, Trans::no, b.value, Trans::yes});
  return u;
}

void LoraAdapter::backward(Ctx& c, Sum& dx, Tensor dy, Tensor x, Tensor u) const {
  Tensor v = c.scratch.take({dy.rows(), rank()}, c.dtype);
  product(c.ops, v, {dy, Trans::no, b.value, Trans::no}, scale_);
  product(c.ops, b.grad, {dy, Trans::yes, u, Trans::no}, 1, b.grad);
  {
    Scope scratch(c.scratch);
    product(c.ops, a.grad, {v, Trans::yes, dropped(c, x), Trans::no}, 1, a.grad);
  }
  if (!dx) return;
  if (dropout_ == 0 || !c.train) {
    dx.add({v, Trans::no, a.value, Trans::no});
    return;
  }
  Tensor through = c.temporary(x.rows(), x.cols());
  product(c.ops, through, {v, Trans::no, a.value, Trans::no});
  c.ops.dropout(through, through, dropout_, mask(c));
  dx.add(through);
}

}  // namespace ft::lora
