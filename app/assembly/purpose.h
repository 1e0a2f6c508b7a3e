// A command's purpose with a run, which its settings do not tell: training, an evaluation, or a computation.
#pragma once
#include <cstdint>
#include <string>

#include "engine/ops/device.h"

namespace ft {

enum class Work : std::uint8_t { train, evaluate, compute };
enum class Int8Part : std::uint8_t { none, head, linears };

struct Purpose {
  Work work = Work::train;
  std::string adapter;             // to evaluate: instead of the settings' own; empty: that one, or none
  Int8Part int8 = Int8Part::none;  // to compute: weights that are stored in 8 bits
  Sums sums = Sums::in_one_order;  // any order: of answers by weights that are quantized for them

  // An evaluation builds the model as its training did.
  bool trains() const { return work != Work::compute; }
};

}  // namespace ft
