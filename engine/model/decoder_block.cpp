#include "engine/model/decoder_block.h"

namespace ft {

DecoderBlock::Saved DecoderBlock::forward(Ctx& c, Tensor y, Tensor x, const Side& side, Keep keep) const {
  const std::int64_t rows = x.rows(), C = x.cols();
  const bool whole = keep == Keep::whole;
  Saved s;
  s.attended = attended.take(c, rows, C, whole && mixer_reads_input());
  s.fed = fed.take(c, rows, C, whole && (moe || mlp.reads_input()));
  if (!parallel) s.h = c.save(rows, C);
  Scope scratch(c.scratch);
  const Tensor n = c.temporary(rows, C), h = parallel ? c.temporary(rows, C) : s.h;
  const Tensor read = attended.input(c, n, x, s.attended);
  attended.forward(c, h, x, read, s.attended, mixer(), [&](Tensor to, Tensor in, Tensor residual) {
    if (delta_net)
      s.delta_net = delta_net->forward(c, to, in, residual, side);
    else
      s.attention = attention.forward(c, to, in, residual, side);
  });
  if (!y && !fed.needs_result()) return s;
  const Tensor fed_with = fed.input(c, n, parallel ? x : h, s.fed);
  // Computes the MLP when a block runs again only because the norm after it needs its result. If the MLP
  // works in many pieces, it then keeps none: backward recomputes each piece.
  fed.forward(c, y, h, fed_with, s.fed, mlp.name(), [&](Tensor to, Tensor in, Tensor residual) {
    if (moe)
      s.moe = moe->forward(c, to, in, residual, side.routers, y ? keep : Keep::all);
    else
      s.mlp = mlp.forward(c, to, in, residual, y ? keep : Keep::but_the_mlp);
  });
  return s;
}

void DecoderBlock::mlp_back(Ctx& c, Tensor d, Tensor through, Tensor x, const Saved& s,
                            const Side& side) const {
  const bool reads = moe || mlp.reads_input() || s.mlp.empty();
  fed.backward(c, {d, through, x, reads}, s.fed, mlp.name(), [&](Tensor dx, Tensor dy, Tensor in) {
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

KvCache::Layer DecoderBlock::take_cache(Arena& arena, const KvCacheShape& shape, std::int64_t key_columns,
                                        DType dtype) const {
  if (delta_net) return delta_net->take_cache(arena, shape.slots, dtype);
  return take_keys(arena, shape.slots * shape.capacity, key_columns, dtype);
}

void DecoderBlock::visit(Visitor& v) {
  delta_net ? attended.visit(v, *delta_net) : attended.visit(v, attention);
  moe ? fed.visit(v, *moe) : fed.visit(v, mlp);
}

}  // namespace ft
