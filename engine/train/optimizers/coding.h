// States that 8-bit optimizers keep in 8 bits, as bitsandbytes and transformers' Trainer choose them.
#pragma once
#include <array>
#include <optional>

#include "engine/ops/optimizer.h"
#include "engine/zero/state_spec.h"

namespace ft {

struct CodingArguments {
  std::int64_t min_8bit_size = 4096;

  void fields(auto& f) {
    f("min_8bit_size", min_8bit_size, "States of weights with fewer elements stay in 32 bits.", at_least(0));
  }
};

// Empty: all states stay in 32 bits.
using Coding = std::optional<CodingArguments>;

// Embeddings stay in 32 bits too.
inline bool codes(const Coding& c, const Parameter& p) {
  return c && !p.embedding && p.whole_shape().numel() >= c->min_8bit_size;
}

constexpr StateSpec coded_state(std::string_view name) { return {name, DType::u8}; }
constexpr StateSpec largest_of_coded(std::string_view name) { return {name, DType::f32, op::kCodedBlock}; }

}  // namespace ft
