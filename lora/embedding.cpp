#include "lora/embedding.h"

#include "engine/layers/sum.h"
#include "engine/ops/ops.h"

namespace ft::lora {

EmbeddingLora::EmbeddingLora(const std::string& module, std::int64_t tokens, std::int64_t width,
                             std::int64_t rank, float scale, DType dtype)
    : a{.name = module + ".lora_embedding_A", .shape = {rank, tokens}, .dtype = dtype, .trainable = true},
      b{.name = module + ".lora_embedding_B", .shape = {width, rank}, .dtype = dtype, .trainable = true},
      scale_(scale) {}

// Returns A's columns of these tokens (r, ids).
Tensor EmbeddingLora::columns(Ctx& c, Tensor ids) const {
  const Tensor own = c.temporary(rank(), ids.numel());
  c.ops.run(op::GatherColumns{.y = own, .x = a.value, .columns = ids});
  return own;
}

void EmbeddingLora::add(Ctx& c, Tensor y, Tensor ids) const {
  Scope scratch(c.scratch);
  c.ops.enter(a.name);
  product(c.ops, y, {columns(c, ids), Trans::yes, b.value, Trans::yes}, scale_, y);
}

void EmbeddingLora::backward(Ctx& c, Tensor dy, Tensor ids, std::int64_t padding) const {
  if (!a.grad) return;
  Scope scratch(c.scratch);
  c.ops.enter(a.name);
  product(c.ops, b.grad, {dy, Trans::yes, columns(c, ids), Trans::yes}, scale_, b.grad);
  const Tensor du = c.temporary(ids.numel(), rank());
  product(c.ops, du, {dy, Trans::no, b.value, Trans::no}, scale_);
  const Tensor rows = c.scratch.take({a.shape[1], rank()}, DType::f32),
               turned = c.scratch.take(a.shape, DType::f32);
  c.ops.run(op::Fill{rows, 0});
  c.ops.run(
      op::EmbeddingGrad{.dtable = rows, .ids = ids, .dy = du, .padding = static_cast<std::int32_t>(padding)});
  c.ops.run(op::Transpose{.y = turned, .x = rows});
  c.ops.run(op::Add{a.grad, turned});
}

void TiedLora::down(Ctx& c, Tensor u, Tensor x) const {
  product(c.ops, u, {x, Trans::no, of_.b.value, Trans::no}, of_.scale());
}

void TiedLora::up(Sum& y, Tensor u) const { y.add({u, Trans::no, of_.a.value, Trans::no}); }

void TiedLora::up_grad(Ctx& c, Tensor du, Tensor dy, Tensor u) const {
  product(c.ops, du, {dy, Trans::no, of_.a.value, Trans::yes}, of_.scale());
  if (of_.a.grad) product(c.ops, of_.a.grad, {u, Trans::yes, dy, Trans::no}, 1, of_.a.grad);
}

void TiedLora::down_grad(Ctx& c, Sum& dx, Tensor du, Tensor x) const {
  if (of_.b.grad) product(c.ops, of_.b.grad, {x, Trans::yes, du, Trans::no}, 1, of_.b.grad);
  if (dx) dx.add({du, Trans::no, of_.b.value, Trans::yes});
}

}  // namespace ft::lora
