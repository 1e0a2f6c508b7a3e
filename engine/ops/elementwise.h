// Operations on each element by itself.
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

// y += x, which may have another float type.
struct Add {
  static constexpr const char* kName = "add";
  Acc y;
  In x;

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

// y = cap tanh(x / cap), between -cap and cap; y may be x. Its gradient is in what reads y: CrossEntropy.
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

// y = x / (1 - p) where the element is kept, else 0; y may be x. Element i uses number i % 4 of
// random.at(i / 4). Where x is some rows and columns of a larger tensor, its elements are numbered as there.
struct Dropout {
  static constexpr const char* kName = "dropout";
  Out y;
  In x;
  float p;  // in [0, 1)
  Random random = {};
  std::int64_t first_row = 0;
  std::int64_t first_column = 0, columns = 0;  // of all of a row's; 0: those of x

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// y += scale (2 u - 1), with the uniform numbers u of Dropout: noise in [-scale, scale].
struct Noise {
  static constexpr const char* kName = "noise";
  Acc y;
  float scale;
  Random random = {};
  std::int64_t first_row = 0;  // as of Dropout

  void check() const;
  void operands(auto&& visit) const { visit("y", y); }
};

// y = f(gate) * up, or f(gate) without an up.
struct Gated {
  static constexpr const char* kName = "gated";
  Activation f;
  Out y;
  In gate;
  In up = Tensor{};

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("gate", gate);
    visit("up", up);
  }
};

// dgate and dup may be gate and up. dup is empty exactly when up is.
struct GatedGrad {
  static constexpr const char* kName = "gated_grad";
  Activation f;
  Out dgate;
  Out dup = Tensor{};
  In dy;
  In gate;
  In up = Tensor{};

  void check() const;
  void operands(auto&& visit) const {
    visit("dgate", dgate);
    visit("dup", dup);
    visit("dy", dy);
    visit("gate", gate);
    visit("up", up);
  }
};

}  // namespace ft::op
