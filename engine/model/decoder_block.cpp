#include "engine/model/decoder_block.h"

#include "engine/parallel/row_shards.h"

#include "engine/core/error.h"

namespace ft {

DecoderBlock::Saved DecoderBlock::forward(Ctx& c, Tensor y, Tensor x, const Side& side, Keep keep) const {
  const std::int64_t rows = x.rows(), C = x.cols();
  Saved s;
  const bool whole = keep == Keep::whole;
  s.attended = attended.take(c, rows, C, whole && attention.reads_input());
  s.fed = fed.take(c, rows, C, whole && (moe || mlp.reads_input()));
  if (!parallel) s.h = c.save(rows, C);
  Scope scratch(c.scratch);
  Tensor n = c.temporary(rows, C);
  const Tensor h = parallel ? c.temporary(rows, C) : s.h;
  Tensor in = attended.input(c, n, x, s.attended);
  attended.forward(c, h, x, s.attended, [&](Tensor to, Tensor residual) {
    Scope inner(c.scratch);
    LayerRows layer(c, parent_of(attention.o_proj.name));
    const Tensor parts = layer.parts(to);
    s.attention = attention.forward(c, parts, layer.all(in), layer.residual(residual), side);
    layer.add_up(to, parts, residual);
  });
  if (!y && !fed.needs_result()) return s;
  in = fed.input(c, n, parallel ? x : h, s.fed);
  // Computes the MLP when a block runs again only because the norm after it needs its result. If the MLP
  // works in many pieces, it then keeps none: backward recomputes each piece.
  fed.forward(c, y, h, s.fed, [&](Tensor to, Tensor residual) {
    if (moe) {
      s.moe = moe->forward(c, to, in, residual, side.routers, y ? keep : Keep::all);
      return;
    }
    Scope inner(c.scratch);
    LayerRows layer(c, parent_of(mlp.down_proj.name));
    const Tensor parts = layer.parts(to);
    s.mlp = mlp.forward(c, parts, layer.all(in), layer.residual(residual), y ? keep : Keep::but_the_mlp);
    layer.add_up(to, parts, residual);
  });
  return s;
}

// d: the gradient of the sum that the MLP was added to. into += the gradient of the MLP's input x.
void DecoderBlock::mlp_back(Ctx& c, Tensor d, Tensor into, Tensor x, const Saved& s, const Side& side,
                            bool wanted) const {
  Scope scratch(c.scratch);
  Tensor n = c.temporary(x.rows(), x.cols()), dn = c.temporary(x.rows(), x.cols());
  const Tensor t = fed.takes(c) ? c.temporary(x.rows(), x.cols()) : Tensor{};
  const Tensor dz = fed.backward(c, d, t, s.fed);
  const bool reads = moe || mlp.reads_input() || s.mlp.empty();
  if (reads) n = fed.input_again(c, n, x, s.fed);
  const Tensor to = wanted ? dn : Tensor{};
  if (moe) {
    moe->backward(c, to, dz, n, s.moe, side.routers);
  } else {
    Scope inner(c.scratch);
    LayerRows layer(c, parent_of(mlp.down_proj.name));
    const Tensor parts = layer.parts(to);
    mlp.backward(c, parts, layer.all(dz), reads ? layer.all(n) : Tensor{}, s.mlp);
    layer.add_up(to, parts);
  }
  if (wanted) fed.input_back(c, into, dn, x, s.fed);
}

void DecoderBlock::attention_back(Ctx& c, Tensor d, Tensor x, const Saved& s, const Side& side,
                                  bool input_grad) const {
  Scope scratch(c.scratch);
  Tensor n = c.temporary(x.rows(), x.cols()), dn = c.temporary(x.rows(), x.cols());
  const Tensor t = attended.takes(c) ? c.temporary(x.rows(), x.cols()) : Tensor{};
  const Tensor dz = attended.backward(c, d, t, s.attended);
  const bool reads = attention.reads_input();
  if (reads) n = attended.input_again(c, n, x, s.attended);
  const bool wanted = input_grad || (attended.before && attended.before->trains());
  {
    Scope inner(c.scratch);
    LayerRows layer(c, parent_of(attention.o_proj.name));
    const Tensor to = wanted ? dn : Tensor{}, parts = layer.parts(to);
    attention.backward(c, parts, layer.all(dz), reads ? layer.all(n) : Tensor{}, s.attention, side);
    layer.add_up(to, parts);
  }
  if (wanted) attended.input_back(c, input_grad ? d : Tensor{}, dn, x, s.attended);
}

void DecoderBlock::backward(Ctx& c, Tensor d, Tensor x, const Saved& s, const Side& side,
                            bool input_grad) const {
  if (!parallel) {
    mlp_back(c, d, d, s.h, s, side, true);
    return attention_back(c, d, x, s, side, input_grad);
  }
  Scope scratch(c.scratch);  // attention reads d as well
  const bool wanted = input_grad || (fed.before && fed.before->trains());
  const Tensor by_mlp = input_grad ? c.temporary(d.rows(), d.cols()) : Tensor{};
  if (by_mlp) c.ops.run(op::Fill{by_mlp, 0});
  mlp_back(c, d, by_mlp, x, s, side, wanted);
  attention_back(c, d, x, s, side, input_grad);
  if (by_mlp) c.ops.run(op::Add{d, by_mlp});
}

void DecoderBlock::cut(TensorRank t) {
  if (moe)
    throw UserError(Exit::config, str("distributed.tensor_parallel_size: ranks cannot share the experts of ",
                                      parent_of(attention.o_proj.name), "'s layer yet; leave it out"));
  attention.cut(t);
  mlp.cut(t);
  if (!t.shards_rows) return;
  for (auto* norm : {&attended.before, &attended.after, &fed.before, &fed.after})
    if (*norm)  // serves all rows, and each rank has some of them
      for (Parameter* p : parameters_of(**norm)) p->summed = true;
}

void DecoderBlock::visit(Visitor& v) {
  const auto norm = [&](std::optional<Norm>& n) {
    if (n) n->visit(v);
  };
  norm(attended.before);
  attention.visit(v);
  norm(attended.after);
  norm(fed.before);
  moe ? moe->visit(v) : mlp.visit(v);
  norm(fed.after);
}

}  // namespace ft
