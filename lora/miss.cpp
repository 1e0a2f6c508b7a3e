#include "lora/miss.h"

#include <cmath>

#include "engine/layers/sum.h"
#include "lora/kinds.h"
#include "lora/starts/decompose.h"

namespace ft::lora {

MissAdapter::MissAdapter(const AdapterForm& f)
    : LinearAdapter(f.out, f.in),
      m{.name = f.module + ".miss_block", .shape = {f.rank, f.out}, .dtype = f.dtype, .trainable = true},
      dropout_(f.dropout) {}

// If the Linear is cut into columns, each rank computes all of u. If it is cut into rows, each computes a
// part of u and has all of M.
void MissAdapter::cut(Cut how, TensorRank t, const Parts& parts) {
  if (how == Cut::columns) return ft::cut(m, 1, t, parts);
  m.summed = true;
  part_ = {t.first_of(weight_shape()[1]), weight_shape()[1]};
}

void MissAdapter::drop(Ctx& c, Tensor y, Tensor x) const {
  drop_input(c, y, x, dropout_, c.random.with(m.name), part_);
}

void MissAdapter::down(Ctx& c, Tensor u, Tensor x) const {
  Scope scratch(c.scratch);
  Tensor kept = x;
  if (drops(c)) drop(c, kept = c.temporary(x.rows(), x.cols()), x);
  c.ops.run(op::FoldColumns{.y = u, .x = kept, .first = part_.first});
}

void MissAdapter::up(Sum& y, Tensor u) const { y.add({u, Trans::no, m.value, Trans::no}); }

void MissAdapter::up_grad(Ctx& c, Tensor du, Tensor dy, Tensor u) const {
  product(c.ops, du, {dy, Trans::no, m.value, Trans::yes});
  if (m.grad) product(c.ops, m.grad, {u, Trans::yes, dy, Trans::no}, 1, m.grad);
}

void MissAdapter::down_grad(Ctx& c, Sum& dx, Tensor du, Tensor x) const {
  if (!dx) return;
  if (!drops(c)) return dx.unfold(du, part_.first);
  const Tensor through = c.temporary(x.rows(), x.cols());
  c.ops.run(op::Fill{through, 0});
  c.ops.run(op::FoldColumnsGrad{.dx = through, .dy = du, .first = part_.first});
  drop(c, through, through);
  dx.add(through);
}

void MissAdapter::initialize(const Parameter& p, LoraInit init, Random random, Tensor y,
                             std::int64_t first) const {
  const Random family = random.with(p.name);
  const double bound = init == LoraInit::random_b ? 1 / std::sqrt(static_cast<double>(weight_shape()[0])) : 0;
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.as<float>()[i] = static_cast<float>(bound * uniform_at(family, static_cast<std::uint64_t>(first + i)));
}

void MissAdapter::merge(Ops&, const ParameterValues& values, Tensor y, bool turned) const {
  require(!turned, "MiSS of a weight that is stored inputs first");
  const Tensor block = values(m);
  const std::int64_t r = width(), out = weight_shape()[0], in = weight_shape()[1];
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t i = 0; i < in; ++i) y.as<float>()[o * in + i] += block.as<float>()[i % r * out + o];
}

namespace {

constexpr PeftKey kMissKeys[] = {{"bias", "bias"},
                                 {"exclude_modules", "exclude_modules"},
                                 {"init_weights", "init_lora_weights"},
                                 {"layers_pattern", "layers_pattern"},
                                 {"layers_to_transform", "layers_to_transform"},
                                 {"mini_r", nullptr, "1"},
                                 {"miss_dropout", "lora_dropout"},
                                 {"modules_to_save", "modules_to_save"},
                                 {"r", "r"},
                                 {"target_modules", "target_modules"}};
constexpr LoraInit kMissStarts[] = {LoraInit::kaiming, LoraInit::random_b};

std::unique_ptr<LinearAdapter> make_miss(const LoraConfig&, const AdapterForm& form) {
  return std::make_unique<MissAdapter>(form);
}

}  // namespace

constexpr AdapterKind kinds::kMiss{.name = "miss",
                                   .peft_type = "MISS",
                                   .title = "MiSS",
                                   .rank = 64,
                                   .keys = kMissKeys,
                                   .starts = kMissStarts,
                                   .lora_only = "MiSS_only",
                                   .most_rank = [](std::int64_t in, std::int64_t) { return in; },
                                   .inputs_first = false,
                                   .make = make_miss};

}  // namespace ft::lora
