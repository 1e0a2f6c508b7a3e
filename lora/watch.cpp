#include "lora/watch.h"

#include <algorithm>

#include "engine/files/convert.h"
#include "engine/ops/ops.h"

namespace ft::lora {
namespace {

// Passes a Linear's inputs to a function, and adds nothing to its output.
class Watcher final : public Adapter {
 public:
  using Wants = std::function<bool()>;
  using See = std::function<void(const Tensor& x)>;
  Watcher(Wants wants, See see) : wants_(std::move(wants)), see_(std::move(see)) {}

  std::int64_t width() const override { return 1; }
  void down(Ctx& c, Tensor, Tensor x) const override {
    Scope scratch(c.scratch);
    Tensor dense = x;
    if (!x.dense()) {
      dense = c.scratch.take({x.rows(), x.cols()}, x.dtype);
      c.ops.copy(dense, x);
    }
    if (!wants_()) return;
    std::vector<std::byte> host(static_cast<std::size_t>(dense.bytes()));
    c.ops.download(host.data(), dense);
    std::vector<float> values(static_cast<std::size_t>(dense.numel()));
    convert(values.data(), DType::f32, host.data(), dense.dtype, dense.numel());
    see_({reinterpret_cast<std::byte*>(values.data()), DType::f32, {dense.rows(), dense.cols()}});
  }
  void up(Sum&, Tensor) const override {}
  void up_grad(Ctx&, Tensor, Tensor, Tensor) const override { refuse(); }
  void down_grad(Ctx&, Sum&, Tensor, Tensor) const override { refuse(); }
  std::optional<DownMatrix> down_matrix(const Ctx&) const override { return {}; }
  void visit_down(Visitor&) override {}
  void visit_up(Visitor&) override {}

 private:
  [[noreturn]] static void refuse() { throw InternalError("a pass backward while inputs are watched"); }

  Wants wants_;
  See see_;
};

}  // namespace

Watch::Watch(Model& model, const Attached& attached, See see) : see_(std::move(see)) {
  EachLinear each([&](Linear& l) {
    const auto found = std::find(attached.adapters.begin(), attached.adapters.end(), l.adapter.get());
    if (!l.adapter || found == attached.adapters.end()) return;
    const auto i = static_cast<std::size_t>(found - attached.adapters.begin());
    auto watcher = std::make_unique<Watcher>([this, i] { return wants && wants(i); },
                                             [this, i](const Tensor& x) { see_(i, x); });
    hidden_.emplace_back(&l, std::exchange(l.adapter, std::move(watcher)));
  });
  model.visit(each);
}

Watch::~Watch() {
  for (auto& [linear, adapter] : hidden_) linear->adapter = std::move(adapter);
}

}  // namespace ft::lora
