#include "engine/layers/mlp.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/layers/sum.h"

namespace ft {
namespace {

Tensor rows_of(const Tensor& t, std::int64_t begin, std::int64_t end) { return t ? t.slice(begin, end) : t; }

// True if the Linear's adapter computes all rows at once.
bool takes_all_rows(const Ctx& c, const Linear& l) { return l.adapter && l.adapter->needs_all_rows(c); }

}  // namespace

std::int64_t Mlp::rows_at_once(const Ctx& c, std::int64_t rows) const {
  const bool all = dropout.active(c) || takes_all_rows(c, gate_proj) || takes_all_rows(c, down_proj) ||
                   (up_proj && takes_all_rows(c, *up_proj));
  return all ? rows : std::min(rows, most_rows(c.ops.device()));
}

// Calls f(begin, end) for each piece of rows: the same pieces in forward and backward, whatever is kept.
void Mlp::each_piece(const Ctx& c, std::int64_t rows,
                     const std::function<void(std::int64_t, std::int64_t)>& f) const {
  const std::int64_t step = rows_at_once(c, rows);
  for (std::int64_t begin = 0; begin < rows; begin += step) f(begin, std::min(rows, begin + step));
}

Mlp::Piece Mlp::widen(Ctx& c, Tensor x) const {
  Piece p;
  c.ops.enter(name());
  if (fused()) {
    p.both = c.save(x.rows(), gate_proj.out);
    p.gate = p.both.columns(0, down_proj.in);
    p.up = p.both.columns(down_proj.in, gate_proj.out);
    p.u = gate_proj.forward(c, p.both, x);
    return p;
  }
  p.gate = c.save(x.rows(), gate_proj.out);
  if (up_proj) p.up = c.save(x.rows(), gate_proj.out);
  p.u =
      up_proj ? forward_all(c, {{gate_proj, p.gate}, {*up_proj, p.up}}, x) : gate_proj.forward(c, p.gate, x);
  return p;
}

// Calls f for runs of rows, with the dropout of down_proj's input for each.
void Mlp::each_run(const Ctx& c, std::int64_t rows, const auto& f) const {
  dropout.each_run(c, rows, down_proj.name, down_proj.first, down_proj.whole, f);
}

Tensor Mlp::inner(Ctx& c, const Piece& p) const {
  const Tensor act = p.act ? p.act : c.temporary(p.gate.rows(), p.gate.cols());
  c.ops.enter(name());
  each_run(c, act.rows(), [&](std::int64_t begin, std::int64_t end, const op::Drop& drop) {
    c.ops.run(op::Gated{.f = activation,
                        .y = act.slice(begin, end),
                        .gate = p.gate.slice(begin, end),
                        .up = rows_of(p.up, begin, end),
                        .drop = drop});
  });
  return act;
}

Mlp::Saved Mlp::forward(Ctx& c, Tensor y, Tensor x, Tensor residual, Keep keep) const {
  // A single piece takes as much memory when it is recomputed as when it is kept.
  const bool keeps =
      keep >= Keep::all || (keep == Keep::but_the_mlp && rows_at_once(c, x.rows()) == x.rows());
  Saved kept;
  each_piece(c, x.rows(), [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t mark = c.saved.mark();
    Piece p = widen(c, x.slice(begin, end));
    if (keep == Keep::whole && down_proj.reads_input()) p.act = c.save(end - begin, down_proj.in);
    Scope scratch(c.scratch);
    p.down_u = down_proj.forward(c, y.slice(begin, end), inner(c, p), rows_of(residual, begin, end));
    if (keeps)
      kept.push_back(p);
    else
      c.saved.rewind(mark);
  });
  return kept;
}

void Mlp::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, const Saved& saved) const {
  std::size_t next = 0;
  each_piece(c, dy.rows(), [&](std::int64_t begin, std::int64_t end) {
    Scope forget(c.saved);
    const Tensor own = rows_of(x, begin, end);
    Piece p;
    if (saved.empty())
      during(c.ops.phases(), Phase::recompute, [&] { p = widen(c, own); });
    else
      p = saved[next++];
    backward(c, rows_of(dx, begin, end), dy.slice(begin, end), own, p);
  });
}

void Mlp::backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, Piece& p) const {
  {
    Scope scratch(c.scratch);
    Tensor dact = c.temporary(dy.rows(), down_proj.in), act;
    if (down_proj.reads_input()) act = p.act ? p.act : inner(c, p);
    if (!p.down_u) during(c.ops.phases(), Phase::recompute, [&] { p.down_u = down_proj.narrow(c, act); });
    Sum sum(c.ops, dact);
    down_proj.backward(c, sum, dy, act, p.down_u);
    sum.run();
    c.ops.enter(name());
    each_run(c, dact.rows(), [&](std::int64_t begin, std::int64_t end, const op::Drop& drop) {
      const Tensor gate = p.gate.slice(begin, end), up = rows_of(p.up, begin, end);
      c.ops.run(op::GatedGrad{.f = activation,
                              .dgate = gate,
                              .dup = up,
                              .dy = dact.slice(begin, end),
                              .gate = gate,
                              .up = up,
                              .drop = drop});
    });
  }
  Scope scratch(c.scratch);
  Sum sum(c.ops, dx);
  if (up_proj)
    backward_all(c, sum, {{gate_proj, p.gate}, {*up_proj, p.up}}, x, p.u);
  else
    gate_proj.backward(c, sum, fused() ? p.both : p.gate, x, p.u);
  sum.run();
}

void Mlp::cut(TensorRank t) {
  gate_proj.share(Cut::columns, t, fused() ? Parts{down_proj.in, down_proj.in} : Parts{});
  if (up_proj) up_proj->share(Cut::columns, t);
  down_proj.share(Cut::rows, t);
}

void Mlp::visit(Visitor& v) {
  if (up_proj)
    visit_all(v, {&gate_proj, &*up_proj});
  else
    gate_proj.visit(v);
  down_proj.visit(v);
}

}  // namespace ft
