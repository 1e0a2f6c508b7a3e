#include "lora/adapter.h"

#include <cmath>

#include "engine/layers/sum.h"
#include "lora/activated.h"
#include "lora/dora.h"
#include "lora/kinds.h"
#include "lora/starts/decompose.h"
#include "lora/starts/starts.h"

namespace ft::lora {

LoraAdapter::LoraAdapter(const std::string& module, std::int64_t in, std::int64_t out, std::int64_t rank,
                         float scale, float dropout, DType dtype, bool has_bias)
    : LinearAdapter(out, in),
      a{.name = module + ".lora_A.weight", .shape = {rank, in}, .dtype = dtype, .trainable = true},
      b{.name = module + ".lora_B.weight", .shape = {out, rank}, .dtype = dtype, .trainable = true},
      scale_(scale),
      dropout_(dropout) {
  if (has_bias)
    bias = {
        .name = module + ".lora_B.bias", .shape = {out}, .dtype = dtype, .trainable = true, .decays = false};
}

// If a Linear is split by columns, each rank computes all of u, and a part of u's gradient. If it is split by
// rows, each rank computes a part of u, and all of its gradient.
void LoraAdapter::cut(Cut how, TensorRank t, const Parts& parts) {
  const bool columns = how == Cut::columns;
  ft::cut(columns ? b : a, columns ? 0 : 1, t, parts);
  (columns ? a : b).summed = true;
  if (bias && columns) ft::cut(*bias, 0, t, parts);
}

void LoraAdapter::drop(Ctx& c, Tensor y, Tensor x) const {
  const bool part = a.portion.has_value();
  drop_input(c, y, x, dropout_, mask(c),
             part ? InputPart{a.portion->runs[0].begin, a.portion->whole[1]} : InputPart{});
}

Tensor LoraAdapter::dropped(Ctx& c, Tensor x) const {
  if (!drops(c)) return x;
  Tensor y = c.temporary(x.rows(), x.cols());
  drop(c, y, x);
  return y;
}

void LoraAdapter::down(Ctx& c, Tensor u, Tensor x) const {
  Scope scratch(c.scratch);
  matrix().forward(c, u, dropped(c, x));
}

void LoraAdapter::up(Sum& y, Tensor u) const { y.add({u, Trans::no, b.value, Trans::yes}); }

void LoraAdapter::up_grad(Ctx& c, Tensor du, Tensor dy, Tensor u) const {
  c.ops.run(op::NarrowGrad{.du = du, .db = b.grad, .dy = dy, .b = b.value, .u = u, .alpha = scale_});
}

void LoraAdapter::down_grad(Ctx& c, Sum& dx, Tensor du, Tensor x) const {
  if (!drops(c)) return matrix().backward(c, dx, du, x);
  {
    Scope scratch(c.scratch);
    Sum none(c.ops, {});
    matrix().backward(c, none, du, dropped(c, x));
  }
  if (!dx) return;
  Tensor through = c.temporary(x.rows(), x.cols());
  product(c.ops, through, {du, Trans::no, a.value, Trans::no});
  drop(c, through, through);
  dx.add(through);
}

// Widens the factors first, so that on a CPU the sum has the bits of merge().
void LoraAdapter::merge_into(Ctx& c, Tensor w) const {
  Scope scratch(c.scratch);
  const auto wide = [&](const Tensor& x) {
    if (x.dtype == DType::f32) return x;
    const Tensor y = c.scratch.take(x.shape, DType::f32);
    c.ops.run(op::Cast{.y = y, .x = x});
    return y;
  };
  const Tensor down = wide(a.value), up = wide(b.value);
  add_product(c.ops, w, down, up, scale_, false);
}

void LoraAdapter::initialize(const Parameter& p, LoraInit init, Random random, Tensor y,
                             std::int64_t first) const {
  if (!bias || p.name != bias->name) return ft::lora::initialize(p, init, random, y, first);
  const double bound = init == LoraInit::random_b ? 1 / std::sqrt(static_cast<double>(rank())) : 0;
  for (std::int64_t i = 0; i < y.numel(); ++i)
    y.as<float>()[i] =
        static_cast<float>(bound * uniform_at(random.with(p.name), static_cast<std::uint64_t>(first + i)));
}

void LoraAdapter::merge(Ops& ops, const ParameterValues& values, Tensor y, bool turned) const {
  const Tensor down = values(a), up = values(b);
  add_product(ops, y, down, up, scale_, turned);
}

void LoraAdapter::merge_bias(const ParameterValues& values, Tensor y) const {
  const Tensor own = values(*bias);
  for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] += scale_ * own.as<float>()[i];
}

void add_product(Ops& ops, Tensor y, Tensor a, Tensor b, float scale, bool turned) {
  const Term term = turned ? Term{a, Trans::yes, b, Trans::yes} : Term{b, Trans::no, a, Trans::no};
  product(ops, y, term, scale, y);
}

namespace {

constexpr PeftKey same(const char* name) { return {name, name}; }
constexpr PeftKey kLoraKeys[] = {same("r"),
                                 same("lora_alpha"),
                                 same("lora_dropout"),
                                 same("target_modules"),
                                 same("target_parameters"),
                                 same("exclude_modules"),
                                 same("modules_to_save"),
                                 same("layers_to_transform"),
                                 same("layers_pattern"),
                                 same("trainable_token_indices"),
                                 same("ensure_weight_tying"),
                                 same("use_rslora"),
                                 same("use_dora"),
                                 same("lora_bias"),
                                 same("alora_invocation_tokens"),
                                 same("init_lora_weights"),
                                 same("eva_config"),
                                 same("lora_ga_config"),
                                 same("bias"),
                                 same("rank_pattern"),
                                 same("alpha_pattern")};
constexpr LoraInit kLoraStarts[] = {LoraInit::kaiming,    LoraInit::random_b, LoraInit::gaussian,
                                    LoraInit::orthogonal, LoraInit::pissa,    LoraInit::olora,
                                    LoraInit::loftq,      LoraInit::eva,      LoraInit::lora_ga};

std::unique_ptr<LinearAdapter> make_lora(const LoraConfig& c, const AdapterForm& f) {
  if (c.use_dora)
    return std::make_unique<DoraAdapter>(f.module, f.in, f.out, f.rank, f.scale, f.dropout, f.dtype);
  if (c.alora_invocation_tokens)
    return std::make_unique<ActivatedLora>(f.module, f.in, f.out, f.rank, f.scale, f.dropout, f.dtype);
  return std::make_unique<LoraAdapter>(f.module, f.in, f.out, f.rank, f.scale, f.dropout, f.dtype,
                                       c.lora_bias);
}

}  // namespace

constexpr AdapterKind kinds::kLora{.name = "lora",
                                   .peft_type = "LORA",
                                   .title = "LoRA",
                                   .rank = 8,
                                   .keys = kLoraKeys,
                                   .starts = kLoraStarts,
                                   .make = make_lora};

}  // namespace ft::lora
