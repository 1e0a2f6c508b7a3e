// Computes nothing. A step run on NullOps takes and gives back memory exactly as a real one does, which is
// how arenas are sized before step 1 and how `ft plan` knows what a run would need. Arguments are checked as
// everywhere; memory has addresses (so that no tensor looks empty) but must not be read or written.
#pragma once
#include <algorithm>

#include "engine/ops/ops.h"

namespace ft {

class NullOps final : public OpsOf<NullOps> {
 public:
  explicit NullOps(Device device = {}) : device_(device) {}

  Device device() const override { return device_; }
  // Any size fits; the bytes asked for so far are added up.
  Buffer allocate(std::int64_t bytes) override {
    require(bytes >= 0, "allocate: a negative size");
    allocated_ += bytes;
    return {reinterpret_cast<std::byte*>(kAddress), [](std::byte*) {}};
  }
  std::int64_t allocated() const { return allocated_; }
  // Bytes for Ops::reserve_dense, enough for everything computed so far.
  std::int64_t dense() const { return dense_; }

  void copy(Tensor y, Tensor x) override { check_copy(y, x); }
  void upload(Tensor y, const void*) override { check_transfer(y); }
  void download(void*, Tensor x) override { check_transfer(x); }
  void synchronize() override {}

 private:
  friend OpsOf<NullOps>;
  void compute(const auto&) {}
  void compute(const op::Products& op) {
    for (const Term& t : op.terms)
      if (t.four_bit) dense_ = std::max(dense_, dense_bytes(t.four_bit.shape, t.a.dtype));
  }

  // Rows and columns are padded to eight. Matrices that take more than kMostDense are made dense in parts.
  std::int64_t dense_bytes(const Shape& shape, DType type) const {
    if (device_.kind != Device::Kind::cuda) return 0;
    const auto padded = [](std::int64_t n) { return (n + 7) / 8 * 8; };
    return std::min(padded(shape[0]) * padded(shape[1]) * size_of(type), kMostDense);
  }
  static constexpr std::int64_t kMostDense = std::int64_t{160} << 20;

  static constexpr std::uintptr_t kAddress = std::uintptr_t{1} << 20;  // aligned, never dereferenced

  Device device_;
  std::int64_t allocated_ = 0, dense_ = 0;
};

}  // namespace ft
