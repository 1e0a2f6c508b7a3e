#include "engine/layers/token_rows.h"

#include "engine/core/error.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

Tensor on_device(Ctx& c, const std::vector<std::int32_t>& values) {
  const Tensor t = c.scratch.take({static_cast<std::int64_t>(values.size()), 1}, DType::i32);
  c.ops.upload(t, values.data());
  return t;
}

}  // namespace

void refuse_cut_rows() {
  throw UserError(Exit::config,
                  "lora.trainable_token_indices: not with distributed.tensor_parallel_size yet; leave one of "
                  "the two out");
}

void TokenRows::put_into(Ctx& c, Tensor table) const {
  Scope scratch(c.scratch);
  c.ops.run(op::ScatterRows{.y = table, .x = values.value, .rows = on_device(c, ids)});
}

// Makes a table from every token id to its number among these rows, or -1, and looks up the batch's tokens in
// it.
void TokenRows::backward(Ctx& c, Tensor dy, Tensor tokens, std::int64_t vocabulary,
                         std::int64_t padding) const {
  if (!values.grad) return;
  Scope scratch(c.scratch);
  std::vector<std::int32_t> number(static_cast<std::size_t>(vocabulary), -1);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] != padding) number[static_cast<std::size_t>(ids[i])] = static_cast<std::int32_t>(i);
  const Tensor numbers = on_device(c, number), of_batch = c.scratch.take({tokens.numel(), 1}, DType::i32);
  c.ops.run(op::GatherRows{.y = of_batch, .x = numbers, .rows = tokens});
  c.ops.run(op::EmbeddingGrad{.dtable = values.grad, .ids = of_batch, .dy = dy});
}

void TokenRows::backward_of_columns(Ctx& c, Tensor dy, Tensor x) const {
  if (!values.grad) return;
  Scope scratch(c.scratch);
  const Tensor own = c.temporary(dy.rows(), values.shape[0]);
  c.ops.run(op::GatherColumns{.y = own, .x = dy, .columns = on_device(c, ids)});
  product(c.ops, values.grad, {own, Trans::yes, x, Trans::no}, 1, values.grad);
}

void WeightWithRows::cut(int, TensorRank, const Parts&) { refuse_cut_rows(); }

}  // namespace ft
