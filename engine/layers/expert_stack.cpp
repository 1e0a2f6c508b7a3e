#include "engine/layers/expert_stack.h"

namespace ft {
namespace {

// Keeps the rank's experts of a parameter whose first axis is the experts.
void keep_own(Parameter& p, std::int64_t first, std::int64_t count) {
  const std::int64_t each = p.shape.numel() / p.shape[0];
  keep_portion(p, {p.shape, p.shape.numel(), {{first * each, count * each}}});
  p.shape.dims[0] = count;
  p.dealt = true;
}

}  // namespace

// A matrix of a stack: stored (in, out), or coded as (out, in).
class ExpertStack::View final : public Weight {
 public:
  View(const ExpertStack& stack, std::int64_t expert) : stack_(stack), expert_(expert) {}
  Term times(Tensor x, Trans t) const override {
    if (const auto& c = stack_.coded)
      return {x,
              Trans::no,
              {},
              t,
              {kMxfp4,
               {out(), in()},
               stack_.part(c->codes.value, expert_),
               stack_.part(c->scales.value, expert_)}};
    return {x, Trans::no, matrix_of(stack_.matrices.value), t == Trans::yes ? Trans::no : Trans::yes};
  }
  bool inputs_first() const override { return !stack_.coded; }
  bool trains() const override { return stack_.matrices.trainable; }
  Tensor grad() const override { return matrix_of(stack_.matrices.grad); }
  void cut(int, TensorRank, const Parts&) override {
    refuse_cut(str("ranks cannot share the experts of ", stack_.matrices.name, " yet; leave it out"));
  }

 private:
  std::int64_t in() const { return stack_.matrices.shape[1]; }
  std::int64_t out() const { return stack_.matrices.shape[2]; }
  Tensor matrix_of(const Tensor& all) const {
    return all ? stack_.part(all, expert_).view({in(), out()}) : Tensor{};
  }

  const ExpertStack& stack_;
  std::int64_t expert_;
};

ExpertStack::ExpertStack(const std::string& name, std::int64_t experts, std::int64_t in, std::int64_t out,
                         DType dtype)
    : matrices{.name = name, .shape = {experts, in, out}, .dtype = dtype},
      biases{.name = name + "_bias",
             .shape = {experts, out},
             .dtype = dtype,
             .decays = false,
             .initial = Initial::zeros} {}

Linear ExpertStack::linear(std::int64_t expert) const {
  Linear l;
  l.name = matrices.name;
  l.in = matrices.shape[1];
  l.out = matrices.shape[2];
  l.weight = std::make_unique<View>(*this, expert);
  return l;
}

Tensor ExpertStack::part(const Tensor& all, std::int64_t expert) const {
  if (!all) return {};
  const std::int64_t each = all.numel() / all.shape[0];
  return all.elements((expert - first_) * each, each);
}

void ExpertStack::keep_in_mxfp4() {
  require(!matrices.trainable && matrices.shape[1] % kMxfp4.block == 0, "a stack that MXFP4 cannot hold");
  const std::int64_t experts = matrices.shape[0], n = matrices.shape.numel();
  const auto made = [&](const char* end, std::int64_t each, std::int64_t stands_for) {
    return Parameter{.name = matrices.name + end,
                     .shape = {experts, n / experts / each},
                     .dtype = DType::u8,
                     .stands_for = stands_for};
  };
  coded.emplace(made("_blocks", 2, n), made("_scales", kMxfp4.block, 0));
}

void ExpertStack::visit(Visitor& v) {
  if (coded) {
    v.parameter(coded->codes);
    v.parameter(coded->scales);
  } else {
    v.parameter(matrices);
  }
  v.parameter(biases);
}

void ExpertStack::share(TensorRank t) {
  const std::int64_t experts = matrices.shape[0], count = t.count_of(experts);
  first_ = t.first_of(experts);
  for (Parameter* p : {&matrices, &biases}) keep_own(*p, first_, count);
  if (!coded) return;
  for (Parameter* p : {&coded->codes, &coded->scales}) keep_own(*p, first_, count);
}

}  // namespace ft
