#include "engine/layers/siblings.h"

#include "engine/layers/sum.h"

namespace ft {
namespace {

// True if `next` begins where `last` ends in memory, as in a unit's buffer.
bool follows(const Tensor& last, const Tensor& next) {
  return next.data == last.data + last.numel() * size_of(last.dtype);
}

// Appends a matrix of the same shape to `all`, whose last one is `last`; returns false if they are not
// contiguous. Matrices of the same shape are contiguous under every ZeRO stage or under none, because the
// decision to shard a parameter depends on its size.
bool append(DownMatrix& all, const DownMatrix& last, const DownMatrix& next) {
  if (next.scale != last.scale || next.a.shape != last.a.shape || !follows(last.a, next.a)) return false;
  if (last.grad && !follows(last.grad, next.grad)) return false;
  const Shape shape{all.a.rows() + next.a.rows(), next.a.cols()};
  all.a = {all.a.data, all.a.dtype, shape};
  if (all.grad) all.grad = {all.grad.data, all.grad.dtype, shape};
  return true;
}

// The matrices of all adapters as one; empty if they are not contiguous.
std::optional<DownMatrix> joined(const Ctx& c, Siblings siblings) {
  std::optional<DownMatrix> all, last;
  for (const Sibling& s : siblings) {
    const Adapter* const own = s.linear.adapter_in(c);
    if (!own) continue;
    const std::optional<DownMatrix> next = own->down_matrix(c);
    if (!next) return {};
    if (!all)
      all = next;
    else if (!append(*all, *last, *next))
      return {};
    last = next;
  }
  return all;
}

std::int64_t width_of(const Ctx& c, const Linear& l) {
  const Adapter* const own = l.adapter_in(c);
  return own ? own->width() : 0;
}

// Calls f(sibling, begin, end) with the columns of its adapter in u.
void each(const Ctx& c, Siblings siblings, auto f) {
  std::int64_t begin = 0;
  for (const Sibling& s : siblings) {
    const std::int64_t end = begin + width_of(c, s.linear);
    f(s, begin, end);
    begin = end;
  }
}

}  // namespace

Tensor forward_all(Ctx& c, Siblings siblings, Tensor x) {
  std::int64_t width = 0;
  for (const Sibling& s : siblings) width += width_of(c, s.linear);
  Tensor u;
  if (width > 0) u = c.saved.take({x.rows(), width}, c.dtype);
  const std::optional<DownMatrix> all = c.adapters ? joined(c, siblings) : std::nullopt;
  if (all) {
    c.ops.enter(siblings.begin()->linear.name);
    all->forward(c, u, x);
  }
  each(c, siblings, [&](const Sibling& s, std::int64_t begin, std::int64_t end) {
    const Tensor own = begin < end ? u.columns(begin, end) : Tensor{};
    if (own && !all) s.linear.down(c, own, x);
    s.linear.forward_with(c, s.y, x, own);
  });
  return u;
}

void backward_all(Ctx& c, Sum& dx, Siblings siblings, Tensor x, Tensor u) {
  Tensor du;
  if (u) du = c.scratch.take(u.shape, c.dtype);
  const std::optional<DownMatrix> all = joined(c, siblings);
  each(c, siblings, [&](const Sibling& s, std::int64_t begin, std::int64_t end) {
    const bool adapted = begin < end;
    const Tensor own = adapted ? u.columns(begin, end) : Tensor{},
                 down = adapted ? du.columns(begin, end) : own;
    s.linear.backward_with(c, dx, down, s.y, x, own);
    if (adapted && !all) s.linear.down_grad(c, dx, down, x);
  });
  if (!all) return;
  Sum none(c.ops, {});
  const bool in_weights = siblings.begin()->linear.fake_format.has_value();
  all->backward(c, in_weights ? none : dx, du, x);
}

void visit_all(Visitor& v, std::initializer_list<Linear*> linears) {
  for (Linear* l : linears) l->visit_own(v);
  for (Linear* l : linears)
    if (l->adapter) l->adapter->visit_down(v);
  for (Linear* l : linears)
    if (l->adapter) l->adapter->visit_up(v);
}

}  // namespace ft
