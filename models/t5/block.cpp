#include "models/t5/block.h"

#include <cmath>

#include "engine/core/error.h"
#include "engine/ops/ops.h"

namespace ft::t5 {
namespace {

// Makes a Linear without bias, with the deviation by which transformers initializes T5.
Linear make(const std::string& name, std::int64_t in, std::int64_t out, double deviation, DType dtype) {
  Linear l = make_linear(name, in, out, false, dtype);
  static_cast<DenseWeight&>(*l.weight).parameter.deviation = deviation;
  return l;
}

Block::Normed<Attention> make_attention(const Config& c, const std::string& layer, const char* name,
                                        DType dtype) {
  const std::string at = layer + name;
  const std::int64_t C = c.d_model, inner = c.inner();
  const double factor = c.initializer_factor, of_keys = factor / std::sqrt(static_cast<double>(C));
  Attention a;
  a.q = make(at + ".q", C, inner, of_keys / std::sqrt(static_cast<double>(c.d_kv)), dtype);
  a.k = make(at + ".k", C, inner, of_keys, dtype);
  a.v = make(at + ".v", C, inner, of_keys, dtype);
  a.o = make(at + ".o", inner, C, factor / std::sqrt(static_cast<double>(inner)), dtype);
  a.heads = {c.num_heads, c.num_heads, c.d_kv};
  return {make_rms_norm(layer + "layer_norm", C, c.layer_norm_epsilon, dtype), std::move(a)};
}

}  // namespace

Block make_block(const Config& c, bool decoder, std::int64_t number, DType dtype) {
  const std::string at = str(decoder ? "decoder" : "encoder", ".block.", number, ".layer.");
  const std::int64_t C = c.d_model, F = c.d_ff;
  Block b;
  b.number = static_cast<std::size_t>(number);
  b.dropout = {c.dropout_rate};
  b.self = make_attention(c, at + "0.", "SelfAttention", dtype);
  if (decoder) b.cross = make_attention(c, at + "1.", "EncDecAttention", dtype);
  const std::string layer = at + (decoder ? "2." : "1."), dense = layer + "DenseReluDense.";
  const double factor = c.initializer_factor, in = factor / std::sqrt(static_cast<double>(C));
  b.mlp.norm = make_rms_norm(layer + "layer_norm", C, c.layer_norm_epsilon, dtype);
  Mlp& mlp = b.mlp.layer;
  mlp.gate_proj = make(dense + (c.gated ? "wi_0" : "wi"), C, F, in, dtype);
  if (c.gated) mlp.up_proj = make(dense + "wi_1", C, F, in, dtype);
  mlp.down_proj = make(dense + "wo", F, C, factor / std::sqrt(static_cast<double>(F)), dtype);
  mlp.activation = c.activation;
  mlp.dropout = b.dropout;
  return b;
}

Scores Block::scores(const Ctx& c, const Attention& of, Tensor bias) const {
  return {.bias = bias,
          .dropout = c.train ? dropout.p : 0,
          .random = dropout.mask(c, of.q.name),
          .first_head = of.first_head,
          .all_heads = of.all_heads};
}

Over Block::over_self(Ctx& c, Tensor x, const Side& side) const {
  return {x,
          {},
          {side.starts, cross.has_value(), 0, {}, side.blocks},
          scores(c, self.layer, side.bias.bias),
          side.bias.dbias,
          side.parts};
}

Over Block::over_memory(Ctx& c, const Side& side) const {
  return {side.memory,
          side.d_memory,
          {side.starts, false, 0, side.memory_starts},
          scores(c, cross->layer, {}),
          {},
          side.parts,
          side.memory_rows};
}

// y = residual + dropout(run's result). run(y, residual) adds its result to the residual.
template <class Run>
void Block::branch(Ctx& c, Tensor y, Tensor residual, const Norm& norm, Run run) const {
  if (!dropout.active(c)) return run(residual);
  run(Tensor{});
  dropout.add(c, y, residual, norm.name());
}

// Returns the gradient of a branch's result: d if dropout is off, else a copy of d with dropout applied.
Tensor Block::dropped(Ctx& c, Tensor d, const Norm& norm) const {
  if (!dropout.active(c)) return d;
  Tensor t = c.temporary(d.rows(), d.cols());
  c.ops.run(op::Dropout{
      .y = t, .x = d, .p = dropout.p, .random = dropout.mask(c, norm.name()), .first_row = c.numbers.first});
  return t;
}

Block::Saved Block::forward(Ctx& c, Tensor y, Tensor x, const Side& side, Keep keep) const {
  Saved s;
  if (side.extending) return extend(c, y, x, side), s;
  const std::int64_t rows = x.rows(), C = x.cols();
  const Norm* norms[] = {&self.norm, cross ? &cross->norm : &mlp.norm, &mlp.norm};
  const bool reads[] = {self.layer.reads_input(), cross && cross->layer.q.reads_input(),
                        mlp.layer.reads_input()};
  for (int i = 0; i < 3; ++i) {
    s.statistics[i] = norms[i]->take_statistics(c.saved, rows);
    if (keep == Keep::whole && reads[i]) s.normed[i] = c.save(rows, C);
  }
  s.h = c.save(rows, C);
  s.h2 = cross ? c.save(rows, C) : s.h;
  Scope scratch(c.scratch);
  const Tensor n = c.temporary(rows, C);
  const auto normed = [&](int i, Tensor of) {
    const Tensor to = s.normed[i] ? s.normed[i] : n;
    norms[i]->forward(c, to, s.statistics[i], of);
    return to;
  };
  Tensor in = normed(0, x);
  branch(c, s.h, x, self.norm,
         [&](Tensor residual) { s.self = self.layer.forward(c, s.h, in, residual, over_self(c, in, side)); });
  if (cross) {
    in = normed(1, s.h);
    branch(c, s.h2, s.h, cross->norm, [&](Tensor residual) {
      s.cross = cross->layer.forward(c, s.h2, in, residual, over_memory(c, side));
    });
  }
  if (!y) return s;
  in = normed(2, s.h2);
  branch(c, y, s.h2, mlp.norm, [&](Tensor residual) { s.mlp = mlp.layer.forward(c, y, in, residual, keep); });
  return s;
}

void Block::backward(Ctx& c, Tensor d, Tensor x, const Saved& s, const Side& side, bool input_grad) const {
  Scope scratch(c.scratch);
  const Tensor n = c.temporary(x.rows(), x.cols()), dn = c.temporary(x.rows(), x.cols());
  const auto normed = [&](int i, const Norm& norm, bool reads, Tensor of) {
    if (s.normed[i]) return s.normed[i];
    if (reads) norm.forward(c, n, s.statistics[i], of);
    return n;
  };
  {
    Scope inner(c.scratch);
    const Tensor in = normed(2, mlp.norm, mlp.layer.reads_input() || s.mlp.empty(), s.h2);
    mlp.layer.backward(c, dn, dropped(c, d, mlp.norm), in, s.mlp);
    mlp.norm.backward(c, d, dn, s.h2, s.statistics[2]);  // added to d, which holds the residual's gradient
  }
  if (cross) {
    Scope inner(c.scratch);
    const Tensor in = normed(1, cross->norm, cross->layer.q.reads_input(), s.h);
    cross->layer.backward(c, dn, dropped(c, d, cross->norm), in, s.cross, over_memory(c, side));
    cross->norm.backward(c, d, dn, s.h, s.statistics[1]);
  }
  const Tensor in = normed(0, self.norm, self.layer.reads_input(), x);
  const bool wanted = input_grad || self.norm.trains();
  self.layer.backward(c, wanted ? dn : Tensor{}, dropped(c, d, self.norm), in, s.self,
                      over_self(c, in, side));
  if (wanted) self.norm.backward(c, input_grad ? d : Tensor{}, dn, x, s.statistics[0]);
}

void Block::extend(Ctx& c, Tensor y, Tensor x, const Side& side) const {
  const Extending& e = *side.extending;
  const std::int64_t rows = x.rows(), C = x.cols();
  Scope scratch(c.scratch);
  Tensor n = c.temporary(rows, C), h = c.temporary(rows, C), h2 = c.temporary(rows, C),
         statistics = mlp.norm.take_statistics(c.scratch, rows);
  self.norm.forward(c, n, statistics, x);
  self.layer.extend(c, h, n, x, e.cache->layers[number], e.rows, e.own, side.bias.bias);
  cross->norm.forward(c, n, statistics, h);
  cross->layer.extend(c, h2, n, h, e.cache->memory[number], {}, e.of_memory, {});
  mlp.norm.forward(c, n, statistics, h2);
  mlp.layer.forward(c, y, n, h2, Keep::nothing);
}

void Block::cut(TensorRank t) {
  self.layer.cut(t);
  if (cross) cross->layer.cut(t);
  mlp.layer.cut(t);
}

void Block::visit(Visitor& v) {
  const auto visit_normed = [&](auto& part) {
    part.layer.visit(v);
    part.norm.visit(v);
  };
  visit_normed(self);
  if (cross) visit_normed(*cross);
  visit_normed(mlp);
}

}  // namespace ft::t5
