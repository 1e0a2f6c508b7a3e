// Ops that compute nothing. A step on NullOps takes and frees memory exactly as a real one: this is how
// arenas are sized before step 1 and how `ft plan` finds the memory that a run needs. Arguments are checked
// as usual. Memory has addresses, so that no tensor looks empty, but must not be read or written.
#pragma once
#include <algorithm>

#include "engine/ops/fp8_room.h"
#include "engine/ops/ops.h"

namespace ft {

class NullOps final : public OpsOf<NullOps> {
 public:
  explicit NullOps(Device device = {}) : device_(device) {}

  Device device() const override { return device_; }
  bool computes() const override { return false; }
  // Allocates any size; counts the bytes.
  Buffer allocate(std::int64_t bytes) override {
    require(bytes >= 0, "allocate: a negative size");
    allocated_ += bytes;
    return {reinterpret_cast<std::byte*>(kAddress), [](std::byte*) {}};
  }
  std::int64_t allocated() const { return allocated_; }
  // Bytes for Ops::reserve_dense that suffice for everything computed so far.
  std::int64_t dense() const { return dense_; }

  void copy(Tensor y, Tensor x) override { check_copy(y, x); }
  void upload(Tensor y, const void*) override { check_transfer(y); }
  void download(void*, Tensor x) override { check_transfer(x); }
  void synchronize() override {}

 private:
  friend OpsOf<NullOps>;
  void compute(const auto&) {}
  void compute(const op::Products& op) {
    const bool on_gpu = device_.kind == Device::Kind::cuda;
    std::int64_t matrices = 0;  // a CPU quantizes those of all terms, a GPU one after another
    for (const Term& t : op.terms)
      if (t.fp8_rows && !on_gpu) matrices += fp8_matrix_bytes(t);
    for (const Term& t : op.terms) {
      if (t.fp8_rows)
        dense_ = std::max(dense_, matrices + fp8_bytes(op.y, t));
      else if (t.four_bit || t.fp8)
        dense_ = std::max(dense_, dense_bytes(t.fp8 ? t.fp8.shape : t.four_bit.shape, t.a.dtype));
    }
  }
  // Counts kRows on GPUs: a plan spreads rows evenly over experts, and a step may give one of them more.
  std::int64_t fp8_bytes(const Tensor& y, const Term& t) const {
    if (device_.kind == Device::Kind::cuda) return Fp8Room(t, Fp8Room::kRows).bytes;
    return std::min(y.rows(), kFp8CpuRows) * fp8_row_bytes(t.depth(), y.cols());
  }

  // Bytes to decode a matrix, with rows and columns padded to multiples of eight. Matrices that take more
  // than kMostDense are decoded in parts.
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
