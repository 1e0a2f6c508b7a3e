#include "lora/starts/gradients.h"

#include <algorithm>

#include "engine/layers/dense_change.h"
#include "engine/ops/ops.h"

namespace ft::lora {
namespace {

// Changes a Linear's weight by zero, and passes the gradient of this change to a function. Takes the place of
// an adapter, whose parameters it visits.
class GradientCollector final : public Adapter, public DenseChange {
 public:
  GradientCollector(LinearAdapter& hidden, std::size_t linear, const WeightGradients::See& see)
      : hidden_(hidden), linear_(linear), see_(see) {}

  const DenseChange* change() const override { return this; }
  std::int64_t width() const override { return 0; }
  void down(Ctx&, Tensor, Tensor) const override {}
  void up(Sum&, Tensor) const override {}
  void up_grad(Ctx&, Tensor, Tensor, Tensor) const override {}
  void down_grad(Ctx&, Sum&, Tensor, Tensor) const override {}
  std::optional<DownMatrix> down_matrix(const Ctx&) const override { return {}; }
  bool needs_all_rows(const Ctx&) const override { return false; }
  void visit_down(Visitor& v) override { hidden_.visit_down(v); }
  void visit_up(Visitor& v) override { hidden_.visit_up(v); }

  // DenseChange
  Tensor matrix(Ctx& c, const Weight&) const override {
    const Tensor zero = c.temporary(hidden_.weight_shape()[0], hidden_.weight_shape()[1]);
    c.ops.run(op::Fill{zero, 0});
    return zero;
  }
  bool trains() const override { return true; }
  void add_grad(Ctx& c, const Weight&, Tensor dw) const override {
    if (!see_) return;
    std::vector<float> values(static_cast<std::size_t>(dw.numel()));
    c.ops.download(values.data(), dw);
    see_(linear_, {reinterpret_cast<std::byte*>(values.data()), DType::f32, dw.shape});
  }
  bool drops(const Ctx&) const override { return false; }
  void drop(Ctx&, Tensor, Tensor) const override {}

 private:
  LinearAdapter& hidden_;
  std::size_t linear_;
  const WeightGradients::See& see_;
};

}  // namespace

WeightGradients::WeightGradients(Model& model, const Attached& attached) {
  EachLinear each([&](Linear& l) {
    const auto found = std::find(attached.adapters.begin(), attached.adapters.end(), l.adapter.get());
    if (!l.adapter || found == attached.adapters.end()) return;
    const auto i = static_cast<std::size_t>(found - attached.adapters.begin());
    auto collector = std::make_unique<GradientCollector>(**found, i, see);
    hidden_.emplace_back(&l, std::exchange(l.adapter, std::move(collector)));
  });
  model.visit(each);
}

WeightGradients::~WeightGradients() {
  for (auto& [linear, adapter] : hidden_) linear->adapter = std::move(adapter);
}

}  // namespace ft::lora
