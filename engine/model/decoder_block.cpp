#include "engine/model/decoder_block.h"

namespace ft {

DecoderBlock::Saved DecoderBlock::forward(Ctx& c, Tensor y, Tensor x, const Side& side, Keep keep) const {
  const std::int64_t rows = x.rows(), C = x.cols();
  const bool whole = keep == Keep::whole;
  Saved s;
  s.attended = attended.take(c, rows, C, whole && mixer_reads_input());
  s.fed = fed.take(c, rows, C, whole && !mlp_and_experts && (moe || mlp.reads_input()));
  if (!parallel) s.h = c.save(rows, C);
  if (per_layer) {
    s.fed_to = c.save(rows, C);
    s.mixed = mixed.take(c, rows, C, false);
  }
  Scope scratch(c.scratch);
  const Tensor n = c.temporary(rows, C), h = parallel ? c.temporary(rows, C) : s.h;
  const Tensor read = attended.input(c, n, x, s.attended);
  attended.forward(c, h, x, read, s.attended, mixer(), [&](Tensor to, Tensor in, Tensor residual) {
    if (delta_net)
      s.delta_net = delta_net->forward(c, to, in, residual, side);
    else
      s.attention = attention.forward(c, to, in, residual, side);
  });
  const Tensor sum = per_layer ? s.fed_to : y;
  if (!sum && !fed.needs_result()) return s;
  const Tensor fed_with = fed.input(c, n, parallel ? x : h, s.fed);
  // Computes the MLP when a block runs again only because the norm after it needs its result. If the MLP
  // works in many pieces, it then keeps none: backward recomputes each piece.
  fed.forward(c, sum, h, fed_with, s.fed, fed_name(), [&](Tensor to, Tensor in, Tensor residual) {
    if (mlp_and_experts)
      s.mlp_and_experts =
          mlp_and_experts->forward(c, to, in, y ? keep : Keep::but_the_mlp, y ? keep : Keep::all);
    else if (moe)
      s.moe = moe->forward(c, to, in, residual, side.routers, y ? keep : Keep::all);
    else
      s.mlp = mlp.forward(c, to, in, residual, y ? keep : Keep::but_the_mlp);
  });
  finish(c, y, s, side);
  return s;
}

void DecoderBlock::scale(Ctx& c, Tensor x) const {
  Scope scratch(c.scratch);
  const Tensor each = c.scratch.take({x.rows(), 1}, DType::f32);
  c.ops.enter(factor->name);
  c.ops.run(op::Fill{each, 1});
  c.ops.run(op::ScaleColumns{.y = each, .x = each, .scale = factor->value});
  c.ops.run(op::ScaleRows{.y = x, .x = x, .w = each.view({x.rows()})});
}

void DecoderBlock::finish(Ctx& c, Tensor y, Saved& s, const Side& side) const {
  if (per_layer)
    mixed.forward(c, y, s.fed_to, s.fed_to, s.mixed, per_layer->name(),
                  [&](Tensor to, Tensor in, Tensor residual) {
                    s.per_layer = per_layer->forward(c, to, in, residual, per_layer->own(side.per_layer));
                  });
  if (factor && y) scale(c, y);
}

void DecoderBlock::finish_back(Ctx& c, Tensor d, const Saved& s, const Side& side) const {
  if (factor) scale(c, d);
  if (!per_layer) return;
  const Residual::Gradients g{d, d, s.fed_to, per_layer->reads_input()};
  mixed.backward(c, g, s.mixed, per_layer->name(), [&](Tensor dx, Tensor dy, Tensor in) {
    per_layer->backward(c, dx, dy, in, per_layer->own(side.per_layer), per_layer->own(side.per_layer_grad),
                        s.per_layer);
  });
}

void DecoderBlock::mlp_back(Ctx& c, Tensor d, Tensor through, Tensor x, const Saved& s,
                            const Side& side) const {
  const bool reads = moe || mlp_and_experts || mlp.reads_input() || s.mlp.empty();
  fed.backward(c, {d, through, x, reads}, s.fed, fed_name(), [&](Tensor dx, Tensor dy, Tensor in) {
    if (mlp_and_experts) return mlp_and_experts->backward(c, dx, dy, in, s.mlp_and_experts);
    moe ? moe->backward(c, dx, dy, in, s.moe, side.routers) : mlp.backward(c, dx, dy, in, s.mlp);
  });
}

void DecoderBlock::attention_back(Ctx& c, Tensor d, Tensor x, const Saved& s, const Side& side,
                                  bool input_grad) const {
  const Residual::Gradients g{d, input_grad ? d : Tensor{}, x, mixer_reads_input()};
  attended.backward(c, g, s.attended, mixer(), [&](Tensor dx, Tensor dy, Tensor in) {
    delta_net ? delta_net->backward(c, dx, dy, in, s.delta_net, side)
              : attention.backward(c, dx, dy, in, s.attention, side);
  });
}

void DecoderBlock::backward(Ctx& c, Tensor d, Tensor x, const Saved& s, const Side& side,
                            bool input_grad) const {
  finish_back(c, d, s, side);
  if (!parallel) {
    mlp_back(c, d, d, s.h, s, side);
    return attention_back(c, d, x, s, side, input_grad);
  }
  Scope scratch(c.scratch);  // attention reads d as well
  const Tensor by_mlp = input_grad ? c.temporary(d.rows(), d.cols()) : Tensor{};
  if (by_mlp) c.ops.run(op::Fill{by_mlp, 0});
  mlp_back(c, d, by_mlp, x, s, side);
  attention_back(c, d, x, s, side, input_grad);
  if (by_mlp) c.ops.run(op::Add{d, by_mlp});
}

KvCache::Layer DecoderBlock::take_cache(Arena& arena, const KvCacheShape& shape, DType dtype) const {
  if (delta_net) return delta_net->take_cache(arena, shape.slots, dtype);
  if (attention.borrows) return {};
  return take_keys(arena, shape.slots * shape.capacity, attention.key_columns(), dtype);
}

void DecoderBlock::visit(Visitor& v) {
  delta_net ? attended.visit(v, *delta_net) : attended.visit(v, attention);
  if (mlp_and_experts)
    fed.visit(v, *mlp_and_experts);
  else
    moe ? fed.visit(v, *moe) : fed.visit(v, mlp);
  if (per_layer) mixed.visit(v, *per_layer);
  if (factor) v.parameter(*factor);
}

}  // namespace ft
