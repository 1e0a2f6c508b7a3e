// Adapters without a narrow part.
#pragma once
#include "engine/layers/dense_change.h"
#include "lora/linear_adapter.h"

namespace ft::lora {

class FullWidthAdapter : public LinearAdapter {
 public:
  using LinearAdapter::LinearAdapter;

  std::int64_t width() const final { return 0; }
  void down(Ctx&, Tensor, Tensor) const final {}
  void up(Sum&, Tensor) const final {}
  void up_grad(Ctx&, Tensor, Tensor, Tensor) const final {}
  void down_grad(Ctx&, Sum&, Tensor, Tensor) const final {}
  std::optional<DownMatrix> down_matrix(const Ctx&) const final { return {}; }
};

// Changes the weight by a matrix of its size.
class DenseAdapter : public FullWidthAdapter, public DenseChange {
 public:
  using FullWidthAdapter::FullWidthAdapter;

  const DenseChange* change() const final { return this; }
  bool needs_all_rows(const Ctx& c) const final { return drops(c); }
};

}  // namespace ft::lora
