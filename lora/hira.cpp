#include "lora/hira.h"

#include <cmath>

#include "engine/layers/sum.h"
#include "lora/adapter.h"
#include "lora/kinds.h"
#include "lora/starts/decompose.h"

namespace ft::lora {

HiraAdapter::HiraAdapter(const AdapterForm& f)
    : DenseAdapter(f.out, f.in),
      a{.name = f.module + ".hira_A", .shape = {f.rank, f.in}, .dtype = f.dtype, .trainable = true},
      b{.name = f.module + ".hira_B", .shape = {f.out, f.rank}, .dtype = f.dtype, .trainable = true},
      dropout_(f.dropout) {}

// If the Linear is cut into columns, each rank has a part of B, and a part of the gradient of all of A; if it
// is cut into rows, the other way round.
void HiraAdapter::cut(Cut how, TensorRank t, const Parts& parts) {
  const bool columns = how == Cut::columns;
  ft::cut(columns ? b : a, columns ? 0 : 1, t, parts);
  (columns ? a : b).summed = true;
  if (!columns) part_ = {t.first_of(weight_shape()[1]), weight_shape()[1]};
}

void HiraAdapter::drop(Ctx& c, Tensor y, Tensor x) const {
  drop_input(c, y, x, dropout_, c.random.with(a.name), part_);
}

Tensor HiraAdapter::matrix(Ctx& c, const Weight& weight) const {
  const std::int64_t out = b.value.rows(), in = a.value.cols();
  const Tensor v = c.temporary(out, in);
  Scope scratch(c.scratch);
  const Tensor ba = c.temporary(out, in);
  product(c.ops, ba, {b.value, Trans::no, a.value, Trans::no});
  c.ops.run(op::Hadamard{.y = v, .x = ba, .w = weight.times({}, Trans::no)});
  return v;
}

void HiraAdapter::add_grad(Ctx& c, const Weight& weight, Tensor dv) const {
  require(!weight.trains(), "HiRA on a trained weight, whose gradient would need B A");
  const Tensor dba = c.temporary(dv.rows(), dv.cols());
  c.ops.run(op::Hadamard{.y = dba, .x = dv, .w = weight.times({}, Trans::no)});
  product(c.ops, a.grad, {b.value, Trans::yes, dba, Trans::no}, 1, a.grad);
  product(c.ops, b.grad, {dba, Trans::no, a.value, Trans::yes}, 1, b.grad);
}

void HiraAdapter::initialize(const Parameter& p, LoraInit init, Random random, Tensor y,
                             std::int64_t first) const {
  const Random family = random.with(p.name);
  const bool zero = p.name == b.name && init != LoraInit::random_b;
  const double r = static_cast<double>(a.whole_shape()[0]);
  const double bound = 1 / std::sqrt(static_cast<double>(weight_shape()[1]));
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const auto at = static_cast<std::uint64_t>(first + i);
    double v = 0;
    if (!zero && init == LoraInit::kaiming)
      v = bound * uniform_at(family, at);
    else if (!zero)
      v = normal_at(family, at) * (init == LoraInit::gaussian ? 1 / r : 1);
    y.as<float>()[i] = static_cast<float>(v);
  }
}

void HiraAdapter::merge(Ops& ops, const ParameterValues& values, Tensor y, bool turned) const {
  std::vector<float> change(static_cast<std::size_t>(y.numel()));
  const Tensor ba(reinterpret_cast<std::byte*>(change.data()), DType::f32, y.shape);
  add_product(ops, ba, values(a), values(b), 1, turned);
  for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] += y.as<float>()[i] * ba.as<float>()[i];
}

namespace {

constexpr PeftKey kHiraKeys[] = {
    {"exclude_modules", "exclude_modules"}, {"fan_in_fan_out", "fan_in_fan_out"},
    {"hira_dropout", "lora_dropout"},       {"init_weights", "init_lora_weights"},
    {"layers_pattern", "layers_pattern"},   {"layers_to_transform", "layers_to_transform"},
    {"modules_to_save", "modules_to_save"}, {"r", "r"},
    {"rank_pattern", nullptr, "{}"},        {"target_modules", "target_modules"}};
constexpr LoraInit kHiraStarts[] = {LoraInit::kaiming, LoraInit::random_b, LoraInit::gaussian};

std::unique_ptr<LinearAdapter> make_hira(const LoraConfig&, const AdapterForm& form) {
  return std::make_unique<HiraAdapter>(form);
}

}  // namespace

constexpr AdapterKind kinds::kHira{.name = "hira",
                                   .peft_type = "HIRA",
                                   .title = "HiRA",
                                   .rank = 32,
                                   .keys = kHiraKeys,
                                   .starts = kHiraStarts,
                                   .by_request = false,
                                   .make = make_hira};

}  // namespace ft::lora
