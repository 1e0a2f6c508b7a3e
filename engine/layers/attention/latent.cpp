#include "engine/layers/attention/latent.h"

#include "engine/layers/sum.h"

namespace ft {
namespace {

// Columns of every head of a dense tensor (rows, heads * width), from column `at` of a head on.
struct OfHeads {
  Tensor x;
  std::int64_t width, at = 0;
  // The next `count` columns, as (rows * heads, count).
  Tensor part(std::int64_t count) const { return x.view({x.numel() / width, width}).columns(at, at + count); }
};

void copy(Ctx& c, const OfHeads& to, const OfHeads& from, std::int64_t count) {
  c.ops.run(op::Cast{.y = to.part(count), .x = from.part(count)});
}

// Fills the last columns of every head with 0, from column x.at on.
void clear(Ctx& c, const OfHeads& x) {
  if (x.at < x.width) c.ops.run(op::Fill{x.part(x.width - x.at), 0});
}

Tensor normed(Ctx& c, const RmsNorm& norm, Tensor x, Tensor rstd) {
  const Tensor y = c.scratch.take({x.rows(), x.cols()}, c.dtype);
  norm.forward(c, y, rstd, x);
  return y;
}

// dx = the gradient of x, for y = l(norm(x)).
void back_through(Ctx& c, Tensor dx, Tensor dy, const Linear& l, const RmsNorm& norm, Tensor x, Tensor rstd,
                  Tensor u) {
  Scope scratch(c.scratch);
  const Tensor in = normed(c, norm, x, rstd), din = c.scratch.take(in.shape, c.dtype);
  Sum sum(c.ops, din);
  l.backward(c, sum, dy, in, u);
  sum.run();
  c.ops.run(op::Fill{dx, 0});
  norm.backward(c, dx, din, x, rstd);
}

}  // namespace

void LatentProjections::rotate(Ctx& c, Tensor x, std::int64_t width, std::int64_t at, float sign,
                               const Positions& p) const {
  if (!p.cos) return;
  c.ops.run(op::Rope{.x = x,
                     .cos = p.cos,
                     .sin = p.sin,
                     .positions = p.positions,
                     .head_width = width,
                     .sign = sign,
                     .first = at,
                     .neighbours = neighbours});
}

// q (rows, h (n + r)) = the queries before rotation. Also makes s.kv_low from x.
void LatentProjections::read_input(Ctx& c, Saved& s, Tensor q, Tensor x) const {
  const std::int64_t rows = x.rows();
  s.kv_low = c.saved.take({rows, kv_a_proj.out}, c.dtype);
  if (!q_a_proj) {
    s.u = forward_all(c, {{q_proj, q}, {kv_a_proj, s.kv_low}}, x);
    return;
  }
  s.q_low = c.saved.take({rows, q_a_proj->out}, c.dtype);
  s.q_rstd = RmsNorm::take_statistics(c.saved, rows);
  s.u = forward_all(c, {{*q_a_proj, s.q_low}, {kv_a_proj, s.kv_low}}, x);
  Scope scratch(c.scratch);
  s.q_u = q_proj.forward(c, q, normed(c, *q_norm, s.q_low, s.q_rstd));
}

// Makes keys and values of all heads from s.kv_low. Its last columns are rotated already.
void LatentProjections::expand(Ctx& c, Saved& s, Tensor k, Tensor v) const {
  const std::int64_t rows = k.rows(), W = heads.width(), made = heads.plain + heads.value;
  Scope scratch(c.scratch);
  const Tensor kv = c.scratch.take({rows, heads.count * made}, c.dtype);
  s.kv_rstd = RmsNorm::take_statistics(c.saved, rows);
  s.kv_u = kv_b_proj.forward(c, kv, normed(c, kv_norm, s.kv_low.columns(0, rank()), s.kv_rstd));
  copy(c, {k, W}, {kv, made}, heads.plain);
  c.ops.run(op::RepeatRows{.y = OfHeads{k, W, heads.plain}.part(heads.rotated),
                           .x = s.kv_low.columns(rank(), s.kv_low.cols())});
  copy(c, {v, W}, {kv, made, heads.plain}, heads.value);
  clear(c, {k, W, heads.key()});
  clear(c, {v, W, heads.value});
}

LatentProjections::Made LatentProjections::forward(Ctx& c, Saved& s, Tensor x, const Positions& p,
                                                   Arena& room) const {
  const std::int64_t rows = x.rows(), W = heads.width();
  const auto take = [&] { return room.take({rows, heads.count * W}, c.dtype); };
  const Made made{take(), take(), take()};
  Scope scratch(c.scratch);
  const bool padded = heads.key() < W;
  const Tensor q = padded ? c.scratch.take({rows, heads.count * heads.key()}, c.dtype) : made.q;
  read_input(c, s, q, x);
  const std::string_view module = parent_of(kv_a_proj.name);
  c.ops.enter(module);
  if (padded) copy(c, {made.q, W}, {q, heads.key()}, heads.key());
  clear(c, {made.q, W, heads.key()});
  rotate(c, made.q, W, heads.plain, 1, p);
  rotate(c, s.kv_low.columns(rank(), s.kv_low.cols()), heads.rotated, 0, 1, p);
  expand(c, s, made.k, made.v);
  c.ops.enter(module);
  return made;
}

// dlow = the gradient of kv_low, from dk and dv.
void LatentProjections::expanded_back(Ctx& c, Tensor dlow, Tensor dk, Tensor dv, const Saved& s,
                                      const Positions& p) const {
  const std::int64_t rows = dk.rows(), W = heads.width(), made = heads.plain + heads.value;
  Scope scratch(c.scratch);
  const Tensor dkv = c.scratch.take({rows, heads.count * made}, c.dtype);
  copy(c, {dkv, made}, {dk, W}, heads.plain);
  copy(c, {dkv, made, heads.plain}, {dv, W}, heads.value);
  const Tensor drotated = dlow.columns(rank(), dlow.cols());
  c.ops.run(op::RepeatRowsGrad{.dx = drotated, .dy = OfHeads{dk, W, heads.plain}.part(heads.rotated)});
  rotate(c, drotated, heads.rotated, 0, -1, p);
  back_through(c, dlow.columns(0, rank()), dkv, kv_b_proj, kv_norm, s.kv_low.columns(0, rank()), s.kv_rstd,
               s.kv_u);
}

void LatentProjections::backward(Ctx& c, Tensor dx, const Made& d, Tensor x, const Saved& s,
                                 const Positions& p) const {
  Scope scratch(c.scratch);
  const std::int64_t rows = d.q.rows(), W = heads.width();
  const Tensor dlow = c.scratch.take({rows, kv_a_proj.out}, c.dtype);
  c.ops.enter(parent_of(kv_a_proj.name));
  expanded_back(c, dlow, d.k, d.v, s, p);
  rotate(c, d.q, W, heads.plain, -1, p);
  Tensor dq = d.q;
  if (heads.key() < W) {
    dq = c.scratch.take({rows, heads.count * heads.key()}, c.dtype);
    copy(c, {dq, heads.key()}, {d.q, W}, heads.key());
  }
  if (q_a_proj) {
    const Tensor dq_low = c.scratch.take({rows, q_a_proj->out}, c.dtype);
    back_through(c, dq_low, dq, q_proj, *q_norm, s.q_low, s.q_rstd, s.q_u);
    dq = dq_low;
  }
  Sum sum(c.ops, dx);
  backward_all(c, sum, {{first(), dq}, {kv_a_proj, dlow}}, x, s.u);
  sum.run();
}

Tensor LatentProjections::narrowed(Ctx& c, Tensor y) const {
  if (heads.value == heads.width()) return y;
  const Tensor out = c.scratch.take({y.rows(), heads.count * heads.value}, c.dtype);
  copy(c, {out, heads.value}, {y, heads.width()}, heads.value);
  return out;
}

Tensor LatentProjections::widened(Ctx& c, Tensor dy) const {
  if (heads.value == heads.width()) return dy;
  const Tensor out = c.scratch.take({dy.rows(), heads.count * heads.width()}, c.dtype);
  copy(c, {out, heads.width()}, {dy, heads.value}, heads.value);
  clear(c, {out, heads.width(), heads.value});
  return out;
}

void LatentProjections::visit(Visitor& v) {
  visit_all(v, {q_a_proj ? &*q_a_proj : &q_proj, &kv_a_proj});
  if (q_a_proj) {
    q_norm->visit(v);
    q_proj.visit(v);
  }
  kv_norm.visit(v);
  kv_b_proj.visit(v);
}

}  // namespace ft
