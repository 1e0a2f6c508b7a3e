// Operations on single elements.
#pragma once
#include "engine/core/random.h"
#include "engine/ops/math.h"
#include "engine/ops/roles.h"

namespace ft::op {

struct Fill {
  static constexpr const char* kName = "fill";
  Out y;  // f32, bf16 or f16
  float value;

  void check() const;
  void operands(auto&& visit) const { visit("y", y); }
};

// Dropout of an operand: an element becomes 0, or is kept and scaled up, by a DropRule. Element i uses number
// i % 8 of random.eight_at(i / 8). If the operand is a part of the rows and columns of a larger tensor, its
// elements have the larger tensor's numbers.
struct Drop {
  float p = 0;  // in [0, 1); 0: there is none
  Random random = {};
  std::int64_t first_row = 0;
  std::int64_t first_column = 0, columns = 0;  // columns of the larger tensor; 0: the operand has all
};

// y += x, or with dropout y = x + dropout(y); rounded once. x may have another float type.
struct Add {
  static constexpr const char* kName = "add";
  Acc y;
  In x;
  Drop drop = {};

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// y = x between f32, bf16 and f16.
struct Cast {
  static constexpr const char* kName = "cast";
  Out y;
  In x;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// y = factor x; y may be x.
struct Multiply {
  static constexpr const char* kName = "multiply";
  Out y;
  In x;
  float factor;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// y = cap tanh(x / cap), between -cap and cap; y may be x. The operation that reads y computes the gradient:
// CrossEntropy.
struct SoftCap {
  static constexpr const char* kName = "soft_cap";
  Out y;
  In x;
  float cap;  // > 0

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// y = x with a Drop; y may be x.
struct Dropout {
  static constexpr const char* kName = "dropout";
  Out y;
  In x;
  float p;  // p and the others are the members of a Drop
  Random random = {};
  std::int64_t first_row = 0;
  std::int64_t first_column = 0, columns = 0;

  Drop drop() const { return {p, random, first_row, first_column, columns}; }
  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// y += scale (2 u - 1): noise in [-scale, scale]. Element i's u is to_uniform of number i % 4 of random.at(i
// / 4).
struct Noise {
  static constexpr const char* kName = "noise";
  Acc y;
  float scale;
  Random random = {};
  std::int64_t first_row = 0;  // as in Drop

  void check() const;
  void operands(auto&& visit) const { visit("y", y); }
};

// y = f(gate) * up, or f(gate) without an up, then dropout; rounded once.
struct Gated {
  static constexpr const char* kName = "gated";
  Activation f;
  Out y;
  In gate;
  In up = Tensor{};
  Drop drop = {};

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("gate", gate);
    visit("up", up);
  }
};

// dgate and dup may be gate and up. dup is empty exactly if up is. drop: applies to y, and therefore to dy.
struct GatedGrad {
  static constexpr const char* kName = "gated_grad";
  Activation f;
  Out dgate;
  Out dup = Tensor{};
  In dy;
  In gate;
  In up = Tensor{};
  Drop drop = {};

  void check() const;
  void operands(auto&& visit) const {
    visit("dgate", dgate);
    visit("dup", dup);
    visit("dy", dy);
    visit("gate", gate);
    visit("up", up);
  }
};

// y = math::limited_gate of the gates and ups in x. Column i of y has its gate in column 2 i, its up in
// column 2 i + 1.
struct GatedPairs {
  static constexpr const char* kName = "gated_pairs";
  Out y;  // (rows, F)
  In x;   // (rows, 2 F)
  float limit;
  float steepness;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// dx may be x.
struct GatedPairsGrad {
  static constexpr const char* kName = "gated_pairs_grad";
  Out dx;
  In dy;
  In x;
  float limit;
  float steepness;

  void check() const;
  void operands(auto&& visit) const {
    visit("dx", dx);
    visit("dy", dy);
    visit("x", x);
  }
};

}  // namespace ft::op
