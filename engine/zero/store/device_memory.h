// Arrays in a device's memory that a ParameterStore keeps for the whole run.
#pragma once
#include <vector>

#include "engine/ops/ops.h"
#include "engine/zero/store/layout.h"

namespace ft::zero {

// A 1-d tensor that owns its memory.
struct OwnTensor {
  Tensor tensor;  // empty: it has no memory
  Buffer memory;
  // Allocates `count` zeros.
  void reserve(Ops& ops, std::int64_t count, DType dtype) {
    if (count == 0) return;
    memory = ops.allocate(count * size_of(dtype));
    tensor = Tensor(memory.get(), dtype, {count});
    const bool bytes = dtype == DType::u8;  // filled as floats: their number is a multiple of 4
    ops.run(op::Fill{bytes ? Tensor(tensor.data, DType::f32, {count / size_of(DType::f32)}) : tensor, 0});
  }
  std::int64_t bytes() const { return memory ? tensor.bytes() : 0; }
};

// Sums of squares (f64) on the device: a total, and one for each trained parameter.
class SquareSums {
 public:
  void reserve(Ops& ops, std::int64_t parameters) {
    memory_ = ops.allocate((1 + parameters) * size_of(DType::f64));
    all_ = Tensor(memory_.get(), DType::f64, {1 + parameters});
  }
  Tensor all() const { return all_; }  // the total first
  Tensor total() const { return all_.elements(0, 1); }
  Tensor of(const Group& g, std::size_t parameter) const {
    return all_.elements(static_cast<std::int64_t>(place(g, parameter)), 1);
  }
  static std::size_t place(const Group& g, std::size_t parameter) {  // in all()
    return static_cast<std::size_t>(1 + g.first_trained) + parameter;
  }

 private:
  Buffer memory_;
  Tensor all_;
};

}  // namespace ft::zero
