#include "lora/experts.h"

#include <algorithm>
#include <array>
#include <set>

#include "engine/layers/sum.h"
#include "lora/attach.h"
#include "lora/matching.h"

namespace ft::lora {
namespace {

// The adapter of one Linear of an expert, which uses the parameters of the adapter of all experts.
class ExpertLora final : public Adapter {
 public:
  ExpertLora(const ExpertsLora& all, std::int64_t expert, std::int64_t first, std::int64_t rows)
      : all_(all), expert_(expert), first_(first), rows_(rows) {}

  std::int64_t width() const override { return all_.rank(); }
  void down(Ctx& c, Tensor u, Tensor x) const override { all_.down(expert_).forward(c, u, x); }
  void up(Sum& y, Tensor u) const override {
    y.add({u, Trans::no, all_.up(expert_, first_, rows_), Trans::yes});
  }
  void up_grad(Ctx& c, Tensor du, Tensor dy, Tensor u) const override {
    product(c.ops, du, {dy, Trans::no, all_.up(expert_, first_, rows_), Trans::no}, all_.scale());
    const Tensor grad = all_.up_gradient(expert_, first_, rows_);
    product(c.ops, grad, {dy, Trans::yes, u, Trans::no}, 1, grad);
  }
  void down_grad(Ctx& c, Sum& dx, Tensor du, Tensor x) const override {
    all_.down(expert_).backward(c, dx, du, x);
  }
  std::optional<DownMatrix> down_matrix(const Ctx&) const override { return all_.down(expert_); }
  // Gate and up, which B has side by side, are cut one by one.
  void cut(Cut how, TensorRank t, const Parts&) override {
    if (how == Cut::rows) return;
    const std::int64_t before = first_ / rows_;
    rows_ = t.count_of(rows_);
    first_ = before * rows_;
  }
  void visit_down(Visitor&) override {}  // the adapter of all experts has the parameters
  void visit_up(Visitor&) override {}

 private:
  const ExpertsLora& all_;
  std::int64_t expert_, first_, rows_;
};

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

ExpertPart adapt(Linear& l, ExpertsLora& all, std::int64_t expert, std::int64_t first) {
  l.adapter = std::make_unique<ExpertLora>(all, expert, first, l.out);
  const bool stacked = l.weight->inputs_first();
  return {stacked ? l.name : weight_of(l), &all, expert, first, l.out, stacked};
}

// Names of the Linears of a model with experts, classified as in PEFT.
class Names final : public Visitor {
 public:
  explicit Names(std::string head) : head_(std::move(head)) {}
  void experts(Moe& m) override {
    if (!m.keeps_names) return;
    if (modules.empty()) {
      const Expert& e = m.experts.front();
      mapped = {std::pair{last_part(m.gate.name), std::string("gate.weight")},
                {last_part(e.gate_proj.name), "gate_up_proj"},
                {last_part(e.up_proj.name), "gate_up_proj"},
                {last_part(e.down_proj.name), "down_proj"}};
    }
    modules.push_back(m.name + ".experts");
    own_.insert(m.gate.name);
    for (Expert& e : m.experts)
      for (const Linear* l : e.linears()) own_.insert(l->name);
    routers.push_back(m.gate.name);
  }
  void linear(Linear& l) override {
    if (l.name != head_ && !own_.contains(l.name)) linears.push_back(l.name);
  }

  std::vector<std::string> modules, routers;                  // modules of experts; names of routers
  std::vector<std::string> linears;                           // other Linears, without the head
  std::array<std::pair<std::string, std::string>, 4> mapped;  // a Linear's former name and its parameter

 private:
  std::string head_;
  std::set<std::string> own_;
};

// Returns the last parts of the names that a text in target_modules matches: all names, or those that match a
// regular expression.
std::vector<std::string> named(const Names& names, const std::string& text, const std::string& setting,
                               Exit exit) {
  std::set<std::string> all;
  const bool every = text == "all-linear";
  const Expression expression(every ? "" : text, setting, exit);
  const auto add = [&](const std::string& name) {
    if (every || expression.matches(name)) all.insert(last_part(name));
  };
  for (const std::string& name : names.linears) add(name);
  for (const std::string& name : names.routers) add(name);
  for (const std::string& module : names.modules)
    for (std::size_t i = 1; i < names.mapped.size(); ++i) add(module + "." + names.mapped[i].first);
  return {all.begin(), all.end()};
}

template <class T>
void set(Pattern<T>& pattern, const std::string& key, T value) {
  std::erase_if(pattern, [&](const auto& p) { return p.first == key; });
  pattern.emplace_back(key, value);
}

}  // namespace

ExpertsLora::ExpertsLora(const std::string& module, std::int64_t experts, std::int64_t in, std::int64_t out,
                         std::int64_t rank, float scale, DType dtype)
    : a{.name = module + ".lora_A.weight", .shape = {experts * rank, in}, .dtype = dtype, .trainable = true},
      b{.name = module + ".lora_B.weight", .shape = {out, rank * experts}, .dtype = dtype, .trainable = true},
      experts_(experts),
      rank_(rank),
      scale_(scale) {
  a.deviation = 1 / static_cast<double>(rank);
}

void ExpertsLora::begin(Ctx& c, bool backward) {
  const std::int64_t each = out() * rank_;
  up_ = c.scratch.take({experts_ * out(), rank_}, b.dtype);
  c.ops.enter(b.name);
  c.ops.run(op::Transpose{.y = up_.view({experts_, each}), .x = b.value.view({each, experts_})});
  up_gradient_ = down_gradient_ = {};
  if (!backward || !b.grad) return;
  up_gradient_ = c.scratch.take({experts_ * out(), rank_}, DType::f32);
  down_gradient_ = c.scratch.take(a.shape, DType::f32);
  c.ops.run(op::Fill{up_gradient_, 0});
  c.ops.run(op::Fill{down_gradient_, 0});
}

void ExpertsLora::finish(Ctx& c) {
  if (!up_gradient_) return;
  const std::int64_t each = out() * rank_;
  const Tensor turned = c.scratch.take(b.shape, DType::f32);
  c.ops.enter(b.name);
  c.ops.run(op::Transpose{.y = turned.view({each, experts_}), .x = up_gradient_.view({experts_, each})});
  c.ops.run(op::Add{b.grad, turned});
  c.ops.run(op::Add{a.grad, down_gradient_});
}

void ExpertsLora::share(TensorRank t) {
  const std::int64_t own = t.count_of(experts_), first = t.first_of(experts_), columns = b.shape[1];
  ft::cut(a, 0, t);
  keep_portion(b, {b.shape, experts_, {{first, own}}});
  b.shape.dims[1] = columns / experts_ * own;
  a.dealt = b.dealt = true;
  first_ = first;
  experts_ = own;
}

void ExpertsLora::cut(Cut how, TensorRank t) {
  const bool columns = how == Cut::columns;
  const std::int64_t half = out() / 2;
  ft::cut(columns ? b : a, columns ? 0 : 1, t, columns ? Parts{half, half} : Parts{});
  (columns ? a : b).summed = true;
}

void ExpertsLora::visit(Visitor& v) {
  v.parameter(a);
  v.parameter(b);
}

DownMatrix ExpertsLora::down(std::int64_t expert) const {
  const auto rows = [&](const Tensor& t) {
    return t ? t.slice((expert - first_) * rank_, (expert - first_ + 1) * rank_) : Tensor{};
  };
  return {rows(a.value), rows(down_gradient_), scale_};
}

Tensor ExpertsLora::up(std::int64_t expert, std::int64_t first, std::int64_t rows) const {
  const std::int64_t at = (expert - first_) * out() + first;
  return up_.slice(at, at + rows);
}
Tensor ExpertsLora::up_gradient(std::int64_t expert, std::int64_t first, std::int64_t rows) const {
  const std::int64_t at = (expert - first_) * out() + first;
  return up_gradient_.slice(at, at + rows);
}

// If both parameters are adapted, PEFT wraps gate_up_proj first.
std::vector<ExpertPart> adapt_experts(Moe& m, const ExpertsRanks& ranks, DType dtype) {
  std::vector<ExpertPart> parts;
  const std::string module = str(kPeftPrefix, m.name, ".experts");
  const Expert& first = m.experts.front();
  const std::int64_t count = std::ssize(m.experts), C = first.gate_proj.in, F = first.down_proj.in;
  if (ranks.gate_up > 0) {
    auto all = std::make_unique<ExpertsLora>(module + (ranks.down > 0 ? ".base_layer" : ""), count, C, 2 * F,
                                             ranks.gate_up, ranks.gate_up_scale, dtype);
    for (std::int64_t e = 0; e < count; ++e) {
      Expert& expert = m.experts[static_cast<std::size_t>(e)];
      std::int64_t at = 0;
      for (Linear* l : expert.wide()) {
        parts.push_back(adapt(*l, *all, e, at));
        at += l->out;
      }
    }
    m.gate_up_adapter = std::move(all);
  }
  if (ranks.down > 0) {
    auto all = std::make_unique<ExpertsLora>(module, count, F, C, ranks.down, ranks.down_scale, dtype);
    for (std::int64_t e = 0; e < count; ++e)
      parts.push_back(adapt(m.experts[static_cast<std::size_t>(e)].down_proj, *all, e, 0));
    m.down_adapter = std::move(all);
  }
  return parts;
}

std::string weight_of(Linear& l) {
  const std::vector<Parameter*> own = parameters_of(*l.weight);
  return own.empty() ? l.name + ".weight" : own[0]->name;
}

std::vector<ExpertsLora*> adapters_of(const std::vector<ExpertPart>& parts) {
  std::vector<ExpertsLora*> all;
  for (const ExpertPart& part : parts)  // parts of one adapter follow one another
    if (all.empty() || all.back() != part.all) all.push_back(part.all);
  return all;
}

LoraConfig with_expert_parameters(Model& model, LoraConfig config, const std::string& head,
                                  const std::string& prefix, Exit exit) {
  if (config.peft_type != &kinds::kLora) return config;
  Names names(head);
  model.visit(names);
  if (names.modules.empty()) return config;
  const std::string setting = prefix + "target_modules";
  const auto* text = std::get_if<std::string>(&config.target_modules);
  const std::vector<std::string> targets =
      text ? named(names, *text, setting, exit) : std::get<std::vector<std::string>>(config.target_modules);
  if (text && targets.empty()) return config;  // attach() reports that nothing matches
  std::vector<std::string> modules,
      parameters = config.target_parameters.value_or(std::vector<std::string>{});
  std::set<std::string> fused;
  for (const std::string& target : targets) {
    const auto at =
        std::ranges::find_if(names.mapped, [&](const auto& m) { return ends_with_module(target, m.first); });
    if (at == names.mapped.end()) {
      modules.push_back(target);
      continue;
    }
    if (std::ranges::find(parameters, at->second) == parameters.end()) parameters.push_back(at->second);
    if (at->second == "gate_up_proj") fused.insert(at->first);
  }
  const std::string &gate = names.mapped[1].first, &up = names.mapped[2].first;
  if (fused.size() == 1)
    throw UserError(exit, str(setting, ": ", *fused.begin(), " and ", fused.contains(gate) ? up : gate,
                              " of experts are one matrix, gate_up_proj; name both, or neither"));
  if (fused.size() == 2) {
    const std::string key = ".*\\.gate_up_proj";
    set(config.rank_pattern, key, config.r * 2);
    set(config.alpha_pattern, key, config.lora_alpha * 2);
  }
  std::ranges::sort(parameters);
  config.target_modules = modules;
  if (!parameters.empty()) config.target_parameters = parameters;
  return config;
}

}  // namespace ft::lora
