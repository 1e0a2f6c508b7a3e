#include "engine/layers/embedding.h"

#include "engine/core/error.h"
#include "engine/layers/sum.h"

namespace ft {

Tensor Embedding::upload(Ctx& c, const std::vector<std::int32_t>& ids) const {
  if (!weight.portion) return ft::upload(c, ids);
  const auto first = static_cast<std::int32_t>(first_row()),
             rows = static_cast<std::int32_t>(weight.shape[0]);
  std::vector<std::int32_t> own = ids;
  for (std::int32_t& id : own) id = first <= id && id < first + rows ? id - first : -1;
  return ft::upload(c, own);
}

std::int64_t Embedding::first_row() const {
  return weight.portion ? weight.portion->runs[0].begin / weight.shape[1] : 0;
}

void Embedding::cut(TensorRank t) {
  if (trained) refuse_cut_rows();
  if (adapter)
    throw UserError(Exit::config, str("lora.target_modules: an adapter of ", parent_of(weight.name),
                                      " does not go with distributed.tensor_parallel_size yet; leave one of "
                                      "the two out"));
  ft::cut(weight, 0, t);
}

// Other ranks' rows are zeros in this rank's result, so that the ranks' sum is the row.
void Embedding::look_up(Ctx& c, Tensor y, Tensor ids) const {
  c.ops.enter(weight.name);
  c.ops.run(op::Embedding{.y = y, .ids = ids, .table = weight.value});
  if (weight.portion) add_up(c, y, weight.name);
  if (adapter && c.adapters) adapter->add(c, y, ids);
  if (scale != 1) c.ops.run(op::Multiply{.y = y, .x = y, .factor = scale});
}

void Embedding::forward(Ctx& c, Tensor y, Tensor ids, Tensor at) const {
  Scope scratch(c.scratch), saved(c.saved);
  prepare(c);
  if (project) {
    const Tensor rows = c.temporary(y.rows(), project->in);
    look_up(c, rows, ids);
    project->forward(c, y, rows);
  } else {
    look_up(c, y, ids);
  }
  if (positions) {
    const Tensor rows = c.temporary(y.rows(), y.cols());
    c.ops.enter(positions->name);
    c.ops.run(op::Embedding{.y = rows, .ids = at, .table = positions->value});
    c.ops.run(op::Add{y, rows});
  }
  dropout.apply(c, y, weight.name);
}

void Embedding::backward(Ctx& c, Tensor dy, Tensor ids, Tensor at) const {
  Scope scratch(c.scratch), saved(c.saved);
  dropout.apply(c, dy, weight.name);
  if (positions && positions->grad) {
    c.ops.enter(positions->name);
    c.ops.run(op::EmbeddingGrad{.dtable = positions->grad, .ids = at, .dy = dy});
  }
  Tensor d = dy;
  if (project) {
    const Tensor rows = c.temporary(dy.rows(), project->in);
    look_up(c, rows, ids);
    const Tensor u = project->narrow(c, rows);
    d = trains_rows() ? c.temporary(dy.rows(), project->in) : Tensor{};
    Sum sum(c.ops, d);
    project->backward(c, sum, dy, rows, u);
    sum.run();
  }
  c.ops.enter(weight.name);
  if (!trains_rows()) return;
  if (scale != 1) c.ops.run(op::Multiply{.y = d, .x = d, .factor = scale});
  if (weight.grad)
    c.ops.run(op::EmbeddingGrad{.dtable = weight.grad,
                                .ids = ids,
                                .dy = d,
                                .padding = static_cast<std::int32_t>(padding - first_row())});
  if (trained) trained->backward(c, d, ids, weight.shape[0], padding);
  if (adapter) adapter->backward(c, d, ids, padding);
}

void Embedding::visit(Visitor& v) {
  v.parameter(weight);
  if (trained) v.parameter(trained->values);
  if (adapter) adapter->visit(v);
  if (positions) v.parameter(*positions);
  if (project) project->visit(v);
}

}  // namespace ft
