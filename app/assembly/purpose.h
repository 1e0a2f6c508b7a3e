// The purpose of a run, which the command decides and the settings do not contain: training, an evaluation,
// or a computation.
#pragma once
#include <cstdint>
#include <string>

#include "engine/ops/device.h"

namespace ft {

enum class Work : std::uint8_t { train, evaluate, compute };
enum class Int8Part : std::uint8_t { none, head, linears };

struct Purpose {
  Work work = Work::train;
  std::string adapter;             // to evaluate: replaces the settings' adapter; empty: keeps it
  Int8Part int8 = Int8Part::none;  // to compute: the weights to keep in 8 bits
  Sums sums = Sums::in_one_order;  // in any order: with weights quantized by --quantize

  // Returns true for training, and for an evaluation, which builds the model as its training did.
  bool trains() const { return work != Work::compute; }
};

}  // namespace ft
