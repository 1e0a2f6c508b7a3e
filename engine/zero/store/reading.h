// Reading of parameters from files into the parts that a rank holds.
#pragma once
#include <functional>
#include <utility>

#include "engine/core/tensor.h"
#include "engine/ops/device.h"
#include "engine/zero/store/away.h"
#include "engine/zero/store/layout.h"

namespace ft {

// Writes elements [first, first + y.numel()) of a parameter to host memory `y`, which has any float type.
using ReadParameter = std::function<void(const Parameter&, Tensor y, std::int64_t first)>;

// Makes a reader of parameters, which may be parts of tensors, from a reader of complete tensors.
inline ReadParameter of_parts(ReadParameter whole) {
  return [whole = std::move(whole)](const Parameter& p, Tensor y, std::int64_t first) {
    each_piece(p, first, y.numel(), [&](std::int64_t here, std::int64_t at, std::int64_t n) {
      whole(p, y.elements(here - first, n), at);
    });
  };
}

namespace zero {

// Read a group's elements `range`. read: to the device. read_to_host: to host memory. read_away: to a depot,
// as elements of `dtype`.
void read(Ops&, const Group&, const Tensor& to, Range range, const ReadParameter&);
void read_to_host(const Group&, const Tensor& to, Range range, const ReadParameter&);
void read_away(const Group&, const Away& to, Range range, DType dtype, const ReadParameter&);

}  // namespace zero
}  // namespace ft
