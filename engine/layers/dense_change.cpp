#include "engine/layers/dense_change.h"

#include "engine/layers/sum.h"

namespace ft {
namespace {

Tensor dropped(Ctx& c, const DenseChange& v, Tensor x) {
  if (!v.drops(c)) return x;
  const Tensor y = c.temporary(x.rows(), x.cols());
  v.drop(c, y, x);
  return y;
}

}  // namespace

void add_change(Ctx& c, const Linear& l, Sum& sum, Tensor x) {
  const DenseChange& v = *l.adapter->change();
  const Tensor matrix = v.matrix(c, *l.weight);
  sum.add({dropped(c, v, x), Trans::no, matrix, Trans::yes});
}

void add_change_grad(Ctx& c, const Linear& l, Sum& dx, Tensor dy, Tensor x) {
  const DenseChange& v = *l.adapter->change();
  if (v.trains()) {
    Scope scratch(c.scratch);
    const Tensor dv = c.scratch.take({l.out, l.in}, DType::f32);
    product(c.ops, dv, {dy, Trans::yes, dropped(c, v, x), Trans::no});
    v.add_grad(c, *l.weight, dv);
  }
  if (!dx) return;
  const Term through{dy, Trans::no, v.matrix(c, *l.weight), Trans::no};
  if (!v.drops(c)) return dx.add(through);
  const Tensor whole = c.temporary(dy.rows(), l.in);
  product(c.ops, whole, through);
  v.drop(c, whole, whole);
  dx.add(whole);
}

}  // namespace ft
