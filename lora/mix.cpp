#include "lora/mix.h"

#include <algorithm>
#include <cmath>

#include "engine/files/file.h"
#include "engine/files/safetensors/safetensors_write.h"
#include "lora/combine.h"
#include "lora/matching.h"
#include "lora/peft.h"
#include "lora/peft_config.h"
#include "lora/starts/decompose.h"

namespace ft::lora {
namespace {

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight", kFrozen = ".base_layer.weight";

struct Matrices {
  std::int64_t r = 0, in = 0, out = 0;
  double scale = 1;
  std::vector<float> a, b;  // (r, in), (out, r)
};

// An adapter whose tensors are all A or B.
class Part {
 public:
  explicit Part(const MixPart& p)
      : weight(p.weight), adapter_(p.folder), file_(join_path(p.folder, "adapter_model.safetensors")) {
    const LoraConfig& c = adapter_.config();
    const auto refuse = [&](const std::string& what) {
      throw UserError(Exit::input, str(printable(p.folder), ": ", what, "; ft merge it alone"));
    };
    if (c.peft_type != &kinds::kLora)
      refuse(str("peft_type: only LORA is mixed, not ", c.peft_type->peft_type));
    if (c.use_dora) refuse("use_dora: magnitudes cannot be mixed");
    if (c.lora_bias) refuse("lora_bias: biases of B are not mixed");
    if (c.alora_invocation_tokens)
      throw UserError(Exit::input, str(printable(p.folder),
                                       ": alora_invocation_tokens: adapters that act from "
                                       "tokens on are neither mixed nor merged"));
    if (c.target_parameters) refuse("target_parameters: adapters of experts are not mixed");
    if (start_of(c.init_lora_weights)->changes_base())
      refuse("init_lora_weights: subtracted a part of the base, so it cannot be mixed");
    for (const StoredTensor& t : file_.tensors()) {
      if (t.name.ends_with(kB) || t.name.ends_with(kFrozen)) continue;
      if (!t.name.ends_with(kA) || !t.name.starts_with(kPeftPrefix))
        refuse(str(printable(t.name), ": only A and B can be mixed"));
      modules.push_back(t.name.substr(0, t.name.size() - kA.size()));
    }
  }

  bool has(const std::string& module) const { return file_.find(module + std::string(kA)) != nullptr; }
  Matrices read(const std::string& module) const {
    const StoredTensor &a = at(module, kA), &b = at(module, kB);
    if (a.shape.size() != 2 || b.shape.size() != 2 || a.shape[0] != b.shape[1] || a.shape[0] < 1)
      throw UserError(Exit::input, str(file_.path(), ": ", printable(module), ": A is ", shape_text(a.shape),
                                       " and B ", shape_text(b.shape)));
    Matrices m{a.shape[0], a.shape[1], b.shape[0], scale_of(module, a.shape[0]), values(a), values(b)};
    return m;
  }
  const LoraConfig& config() const { return adapter_.config(); }
  const std::string& base_model() const { return adapter_.base_model(); }

  double weight;
  std::vector<std::string> modules;  // names with PEFT's prefix

 private:
  const StoredTensor& at(const std::string& module, std::string_view which) const {
    const StoredTensor* t = file_.find(module + std::string(which));
    if (!t) throw UserError(Exit::input, str(file_.path(), ": ", printable(module), which, " is missing"));
    return *t;
  }
  std::vector<float> values(const StoredTensor& t) const {
    std::vector<float> out(static_cast<std::size_t>(t.numel));
    file_.read(t, Tensor(reinterpret_cast<std::byte*>(out.data()), DType::f32, {t.numel}));
    return out;
  }
  double scale_of(const std::string& module, std::int64_t r) const {
    const LoraConfig& c = config();
    const std::string name = module.substr(std::string_view(kPeftPrefix).size());
    const double alpha =
        pattern_value(c.alpha_pattern, name, adapter_.config_file() + ": alpha_pattern", Exit::input)
            .value_or(c.lora_alpha);
    return alpha / (c.use_rslora ? std::sqrt(static_cast<double>(r)) : static_cast<double>(r));
  }

  AdapterFolder adapter_;
  SafetensorsFile file_;
};

// The matrices of a module in all parts that have it.
struct Module {
  std::vector<Matrices> parts;
  std::vector<double> weights;

  std::int64_t ranks() const {
    std::int64_t sum = 0;
    for (const Matrices& m : parts) sum += m.r;
    return sum;
  }
};

Matrices side_by_side(const Module& m) {
  Matrices y{m.ranks(), m.parts[0].in, m.parts[0].out, 1, {}, {}};
  y.b.resize(static_cast<std::size_t>(y.out * y.r));
  std::int64_t first = 0;
  for (std::size_t k = 0; k < m.parts.size(); ++k) {
    const Matrices& p = m.parts[k];
    for (const float v : p.a) y.a.push_back(static_cast<float>(m.weights[k] * p.scale * v));
    for (std::int64_t o = 0; o < y.out; ++o)
      std::copy_n(p.b.begin() + o * p.r, p.r, y.b.begin() + o * y.r + first);
    first += p.r;
  }
  return y;
}

Matrices best_of(const Module& m, std::int64_t rank) {
  const Matrices all = side_by_side(m);
  std::vector<float> w(static_cast<std::size_t>(all.out * all.in));
  for (std::int64_t o = 0; o < all.out; ++o)
    for (std::int64_t i = 0; i < all.in; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < all.r; ++k)
        sum += static_cast<double>(all.b[static_cast<std::size_t>(o * all.r + k)]) *
               all.a[static_cast<std::size_t>(k * all.in + i)];
      w[static_cast<std::size_t>(o * all.in + i)] = static_cast<float>(sum);
    }
  const std::int64_t r = std::min({rank, all.in, all.out});
  const Singular s = largest_singular({w.data(), all.out, all.in}, r);
  Matrices y{r, all.in, all.out, 1, {s.right.values.begin(), s.right.values.end()}, {}};
  for (std::int64_t o = 0; o < y.out; ++o)
    for (std::int64_t k = 0; k < r; ++k)
      y.b.push_back(static_cast<float>(s.left[k][o] * s.values[static_cast<std::size_t>(k)]));
  return y;
}

CombineRule combine_rule(const MixRule& rule) {
  using enum Combination;
  const Combination c = rule.combination;
  const bool dare = c == dare_linear || c == dare_ties;
  CombineRule y{.density = rule.density};
  if (prunes(c)) y.pruning = dare ? Pruning::random : Pruning::small;
  if (c == ties || c == dare_ties) y.election = rule.by_frequency ? Election::frequency : Election::total;
  return y;
}

// Combines the A and the B separately, each scaled by the root of the factor of their product; A gets its
// sign.
Matrices each_by_itself(const Module& m, const std::string& module, const MixRule& rule) {
  Matrices y{m.parts[0].r, m.parts[0].in, m.parts[0].out, 1, {}, {}};
  std::vector<std::vector<float>> a, b;
  std::vector<double> of_a, of_b;
  for (std::size_t k = 0; k < m.parts.size(); ++k) {
    const Matrices& p = m.parts[k];
    if (p.r != y.r)
      throw UserError(Exit::input,
                      str(printable(module), ": ranks ", y.r, " and ", p.r, ": ", name_of(rule.combination),
                          " is for equal ranks; use --combination-type cat or svd"));
    const double factor = m.weights[k] * p.scale, root = std::sqrt(std::abs(factor));
    of_a.push_back(factor < 0 ? -root : root);
    of_b.push_back(root);
    a.push_back(p.a);
    b.push_back(p.b);
  }
  const Random random = Random{rule.seed}.with(module);
  y.a = combine(std::move(a), of_a, combine_rule(rule), random.with("A"));
  y.b = combine(std::move(b), of_b, combine_rule(rule), random.with("B"));
  return y;
}

class Mix {
 public:
  Mix(const std::vector<MixPart>& parts, const MixRule& rule) : rule_(rule) {
    for (const MixPart& p : parts) parts_.push_back(std::make_unique<Part>(p));
    for (const auto& p : parts_)
      for (const std::string& module : p->modules)
        if (std::find(modules_.begin(), modules_.end(), module) == modules_.end()) modules_.push_back(module);
    for (const std::string& name : modules_) {
      const Module m = module(name);
      std::int64_t most = 0;
      for (const Matrices& p : m.parts) most = std::max(most, p.r);
      rank_ = std::max(rank_, rule.combination == Combination::cat ? m.ranks() : most);
    }
    if (rule.combination == Combination::svd && rule.rank) rank_ = *rule.rank;
  }

  void write(const std::string& folder) {
    std::vector<TensorSpec> specs;
    for (const std::string& name : modules_) {
      const Module m = module(name);
      specs.push_back({name + std::string(kA), DType::f32, {rank_, m.parts[0].in}});
      specs.push_back({name + std::string(kB), DType::f32, {m.parts[0].out, rank_}});
    }
    write_safetensors(join_path(folder, "adapter_model.safetensors"), specs,
                      [&](const TensorSpec& s) { return tensor(s); });
    LoraConfig c;  // c has scale 1
    c.r = rank_;
    c.lora_alpha = static_cast<double>(rank_);
    std::vector<std::string> targets;
    for (const std::string& name : modules_)
      targets.push_back(name.substr(std::string_view(kPeftPrefix).size()));
    c.target_modules = targets;
    c.task_type = parts_[0]->config().task_type;
    write_file(join_path(folder, "adapter_config.json"), adapter_config_text(c, {}, parts_[0]->base_model()));
  }

 private:
  Module module(const std::string& name) const {
    Module m;
    for (const auto& p : parts_) {
      if (!p->has(name)) continue;
      m.parts.push_back(p->read(name));
      m.weights.push_back(p->weight);
      if (m.parts.back().in != m.parts[0].in || m.parts.back().out != m.parts[0].out)
        throw UserError(Exit::input, str(printable(name), ": the adapters are of different models: it has ",
                                         m.parts[0].in, " inputs and ", m.parts[0].out, " outputs in one, ",
                                         m.parts.back().in, " and ", m.parts.back().out, " in another"));
    }
    return m;
  }
  Matrices mixed(const std::string& name) const {
    const Module m = module(name);
    if (rule_.combination == Combination::cat) return side_by_side(m);
    if (rule_.combination == Combination::svd) return best_of(m, rank_);
    return each_by_itself(m, name, rule_);
  }
  // Returns a module's A or B, padded with zeros from its rank to the mix's.
  Tensor tensor(const TensorSpec& spec) {
    const bool is_a = spec.name.ends_with(kA);
    const std::string name = spec.name.substr(0, spec.name.size() - kA.size());
    if (held_name_ != name) {
      held_ = mixed(name);
      held_name_ = name;
    }
    values_.assign(static_cast<std::size_t>(spec.shape.numel()), 0);
    if (is_a)
      std::copy(held_.a.begin(), held_.a.end(), values_.begin());
    else
      for (std::int64_t o = 0; o < held_.out; ++o)
        std::copy_n(held_.b.begin() + o * held_.r, held_.r, values_.begin() + o * rank_);
    return {reinterpret_cast<std::byte*>(values_.data()), DType::f32, spec.shape};
  }

  const MixRule& rule_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::string> modules_;
  std::int64_t rank_ = 1;
  std::string held_name_;
  Matrices held_;
  std::vector<float> values_;
};

}  // namespace

void write_mix(const std::string& folder, const std::vector<MixPart>& parts, const MixRule& rule) {
  Mix(parts, rule).write(folder);
}

}  // namespace ft::lora
