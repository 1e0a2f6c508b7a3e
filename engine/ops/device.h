// The choice of a device and its options. Code that only passes Ops on needs no more; code that runs
// operations needs ops.h.
#pragma once
#include <cstdint>
#include <string>

namespace ft {

class Ops;

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda } kind = Kind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

// The kernels for attention: ft's own, or the device vendor's for the shapes that they support.
enum class AttentionKernels : std::uint8_t { own, vendor };

// Order of sums in a product with quantized weights. in_one_order: a row's result has the same bits whatever
// other rows there are. in_any_order: CPUs may sum few rows in another order, which is faster.
enum class Sums : std::uint8_t { in_one_order, in_any_order };

struct DeviceOptions {
  AttentionKernels attention = AttentionKernels::own;
  Sums sums = Sums::in_one_order;
  bool fp8_rows = false;    // the device must have products with rows in FP8 (Term::fp8_rows)
  std::string tuning_file;  // the fastest algorithms for products, kept between runs; empty: none
};

}  // namespace ft
