#include "lora/adapter.h"

#include "engine/layers/sum.h"

namespace ft::lora {

LoraAdapter::LoraAdapter(const std::string& module, std::int64_t in, std::int64_t out, std::int64_t rank,
                         float scale, float dropout, DType dtype)
    : a{.name = module + ".lora_A.weight", .shape = {rank, in}, .dtype = dtype, .trainable = true},
      b{.name = module + ".lora_B.weight", .shape = {out, rank}, .dtype = dtype, .trainable = true},
      scale_(scale),
      dropout_(dropout) {}

// If a Linear is split by columns, each rank computes all of u, and a part of u's gradient. If it is split by
// rows, each rank computes a part of u, and all of its gradient.
void LoraAdapter::cut(Cut how, TensorRank t, const Parts& parts) {
  const bool columns = how == Cut::columns;
  ft::cut(columns ? b : a, columns ? 0 : 1, t, parts);
  (columns ? a : b).summed = true;
}

void LoraAdapter::drop(Ctx& c, Tensor y, Tensor x) const {
  const bool part = a.portion.has_value();
  c.numbers.each_run(x.rows(), [&](std::int64_t begin, std::int64_t end, std::int64_t number) {
    c.ops.run(op::Dropout{.y = y.slice(begin, end),
                          .x = x.slice(begin, end),
                          .p = dropout_,
                          .random = mask(c),
                          .first_row = number,
                          .first_column = part ? a.portion->runs[0].begin : 0,
                          .columns = part ? a.portion->whole[1] : 0});
  });
}

Tensor LoraAdapter::dropped(Ctx& c, Tensor x) const {
  if (!drops(c)) return x;
  Tensor y = c.temporary(x.rows(), x.cols());
  drop(c, y, x);
  return y;
}

void LoraAdapter::down(Ctx& c, Tensor u, Tensor x) const {
  Scope scratch(c.scratch);
  matrix().forward(c, u, dropped(c, x));
}

void LoraAdapter::up(Sum& y, Tensor u) const { y.add({u, Trans::no, b.value, Trans::yes}); }

void LoraAdapter::up_grad(Ctx& c, Tensor du, Tensor dy, Tensor u) const {
  c.ops.run(op::NarrowGrad{.du = du, .db = b.grad, .dy = dy, .b = b.value, .u = u, .alpha = scale_});
}

void LoraAdapter::down_grad(Ctx& c, Sum& dx, Tensor du, Tensor x) const {
  if (!drops(c)) return matrix().backward(c, dx, du, x);
  {
    Scope scratch(c.scratch);
    Sum none(c.ops, {});
    matrix().backward(c, none, du, dropped(c, x));
  }
  if (!dx) return;
  Tensor through = c.temporary(x.rows(), x.cols());
  product(c.ops, through, {du, Trans::no, a.value, Trans::no});
  drop(c, through, through);
  dx.add(through);
}

}  // namespace ft::lora
