// The normalization of a family: blocks, attention and heads use one and need not know its kind. A new kind
// is an alternative of `Kind` with the members of RmsNorm.
#pragma once
#include <utility>
#include <variant>

#include "engine/layers/layer_norm.h"
#include "engine/layers/rms_norm.h"

namespace ft {

class Norm {
 public:
  using Kind = std::variant<RmsNorm, LayerNorm>;

  Norm() = default;
  Norm(RmsNorm norm) : kind_(std::move(norm)) {}
  Norm(LayerNorm norm) : kind_(std::move(norm)) {}

  // Name of its weight in Hugging Face's model.
  const std::string& name() const {
    return std::visit(
        [](const auto& n) -> const auto& { return n.weight.name; }, kind_);
  }
  std::int64_t width() const {
    return std::visit([](const auto& n) { return n.weight.shape[0]; }, kind_);
  }
  // True if its parameters have gradients.
  bool trains() const {
    return std::visit([](const auto& n) { return n.trains(); }, kind_);
  }

  // Takes memory for the statistics that backward needs, in addition to x (rows, width).
  Tensor take_statistics(Arena& arena, std::int64_t rows) const {
    return std::visit([&](const auto& n) { return n.take_statistics(arena, rows); }, kind_);
  }
  // Computes the same bits when called again: y need not be kept.
  void forward(Ctx& c, Tensor y, Tensor statistics, Tensor x) const {
    std::visit([&](const auto& n) { n.forward(c, y, statistics, x); }, kind_);
  }
  void backward(Ctx& c, Tensor dx, Tensor dy, Tensor x, Tensor statistics) const {  // dx +=
    std::visit([&](const auto& n) { n.backward(c, dx, dy, x, statistics); }, kind_);
  }
  void visit(Visitor& v) {
    std::visit([&](auto& n) { n.visit(v); }, kind_);
  }

 private:
  Kind kind_;
};

}  // namespace ft
