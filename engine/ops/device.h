// Which device computes, and how it is asked to. Enough for who passes Ops on; ops.h is for who runs an
// operation.
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

// Whose kernels compute attention: ft's own, or the device's vendor's where they take the shape.
enum class AttentionKernels : std::uint8_t { own, vendor };

// Whether a product with quantized weights has the same bits for a row whatever rows are beside it. Otherwise
// a few rows may be summed in another order, on CPUs, which is faster.
enum class Sums : std::uint8_t { in_one_order, in_any_order };

struct DeviceOptions {
  AttentionKernels attention = AttentionKernels::own;
  Sums sums = Sums::in_one_order;
  std::string tuning_file;  // the fastest algorithms for products, kept between runs; empty: none
};

}  // namespace ft
