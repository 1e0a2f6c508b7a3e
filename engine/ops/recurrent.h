// Operations of linear attention, whose memory of a sequence has a constant size: a short convolution along
// the tokens, and the gated delta rule (Yang et al., "Gated delta networks", 2024).
//
// Sequences lie one after another in the rows. `first` (rows) i32 has the first row of each row's sequence.
// A sequence begins with zeros. In generation it may continue: `slot` (rows) i32 is then the row of the
// memory that belongs to the row's sequence, and `past` (rows) i32 is the number of tokens that the sequence
// had before these rows. With past 0 the memory is not read. It is always written.
#pragma once
#include "engine/ops/device.h"
#include "engine/ops/roles.h"

namespace ft {

// K key heads of k columns, V value heads of v columns; V is a multiple of K: value head j uses key head
// j / (V / K).
struct DeltaHeads {
  std::int64_t keys = 0, values = 0, key_width = 0, value_width = 0;

  std::int64_t key_columns() const { return keys * key_width; }
  std::int64_t value_columns() const { return values * value_width; }
  std::int64_t state() const { return values * key_width * value_width; }  // elements of a sequence's state
};

// Size of the memory that the delta rule works in, in f32: it depends only on the heads, the number of rows
// and the kind of device. A CPU needs delta_work_rows() rows of delta_work() columns, a GPU delta_gpu_work()
// elements.
Shape delta_work_shape(const Device&, const DeltaHeads&, std::int64_t rows, bool gradient);
std::int64_t delta_work(const DeltaHeads&, bool gradient);
std::int64_t delta_work_rows(const DeltaHeads&, std::int64_t rows);
std::int64_t delta_gpu_work(const DeltaHeads&, std::int64_t rows, bool gradient);

namespace op {

// Number of taps of a convolution is at most this.
inline constexpr std::int64_t kMostTaps = 16;

// y[t, c] = silu(sum over j of w[c, j] x[t - n + 1 + j, c]); x before the sequence's first row is zero, or in
// the memory.
struct CausalConv {
  static constexpr const char* kName = "causal_conv";
  Out y;
  InOut memory = Tensor{};  // (slots, (n - 1) C) of x's type: the last n - 1 inputs, the oldest first
  In x;                     // (rows, C)
  In w;                     // (C, n)
  In first;
  In slot = Tensor{}, past = Tensor{};  // exactly if there is a memory

  void check() const;
  void check_indices() const;
  double bytes() const { return bytes_of(y) + bytes_of(x) + bytes_of(w); }
  void operands(auto&& visit) const {
    visit("y", y);
    visit("memory", memory);
    visit("x", x);
    visit("w", w);
    visit("first", first);
    visit("slot", slot);
    visit("past", past);
  }
};

// The gradient without a memory.
struct CausalConvGrad {
  static constexpr const char* kName = "causal_conv_grad";
  Out dx = Tensor{};
  Acc dw = Tensor{};  // (C, n) f32
  In dy;
  In x;
  In w;
  In first;

  void check() const;
  void check_indices() const;
  void operands(auto&& visit) const {
    visit("dx", dx);
    visit("dw", dw);
    visit("dy", dy);
    visit("x", x);
    visit("w", w);
    visit("first", first);
  }
};

// g = -exp(a_log) softplus(a + dt_bias), the logarithm of a decay; beta = sigmoid(b).
struct DeltaGates {
  static constexpr const char* kName = "delta_gates";
  Out g, beta;        // (rows, V) f32
  In a, b;            // (rows, V)
  In a_log, dt_bias;  // (V) f32

  void check() const;
  void operands(auto&& visit) const {
    visit("g", g);
    visit("beta", beta);
    visit("a", a);
    visit("b", b);
    visit("a_log", a_log);
    visit("dt_bias", dt_bias);
  }
};

struct DeltaGatesGrad {
  static constexpr const char* kName = "delta_gates_grad";
  Out da, db;
  Acc da_log = Tensor{}, ddt_bias = Tensor{};  // (V) f32
  In dg, dbeta;                                // (rows, V) f32
  In a, b;
  In a_log, dt_bias;

  void check() const;
  void operands(auto&& visit) const {
    visit("da", da);
    visit("db", db);
    visit("da_log", da_log);
    visit("ddt_bias", ddt_bias);
    visit("dg", dg);
    visit("dbeta", dbeta);
    visit("a", a);
    visit("b", b);
    visit("a_log", a_log);
    visit("dt_bias", dt_bias);
  }
};

// For every value head a state S (k, v), in f32:
//   S <- e^g S;  d = beta (v - S^T k);  S <- S + k d^T;  o = S^T q.
// Queries and keys are divided by sqrt(|x|^2 + 1e-6), queries also by sqrt(k). Computed in chunks of at most
// 64 tokens, which begin with their sequence: the results do not depend on other sequences.
//
// work: memory of delta_work_shape(); on a CPU a row is for one key head of some of the sequences.
struct DeltaRule {
  static constexpr const char* kName = "delta_rule";
  Out o;                    // (rows, V v)
  InOut memory = Tensor{};  // (slots, V k v) f32
  Out work;                 // f32, dense
  In q, k, v;               // (rows, K k) twice, (rows, V v)
  In g, beta;               // (rows, V) f32
  In first;
  In slot = Tensor{}, past = Tensor{};  // exactly if there is a memory
  DeltaHeads heads;

  void check() const;
  void check_indices() const;
  double flops() const;
  double bytes() const;
  void operands(auto&& visit) const {
    visit("o", o);
    visit("memory", memory);
    visit("work", work);
    visit("q", q);
    visit("k", k);
    visit("v", v);
    visit("g", g);
    visit("beta", beta);
    visit("first", first);
    visit("slot", slot);
    visit("past", past);
  }
};

// The gradient without a memory. It computes the states once more.
struct DeltaRuleGrad {
  static constexpr const char* kName = "delta_rule_grad";
  Out dq, dk, dv;
  Out dg, dbeta;  // (rows, V) f32
  Out states;     // (rows / 64, V k v) f32: the states between chunks
  Out work;       // f32, dense
  In o_grad;      // (rows, V v)
  In q, k, v;
  In g, beta;
  In first;
  DeltaHeads heads;

  void check() const;
  void check_indices() const;
  double flops() const;
  double bytes() const;
  void operands(auto&& visit) const {
    visit("dq", dq);
    visit("dk", dk);
    visit("dv", dv);
    visit("dg", dg);
    visit("dbeta", dbeta);
    visit("states", states);
    visit("work", work);
    visit("o_grad", o_grad);
    visit("q", q);
    visit("k", k);
    visit("v", v);
    visit("g", g);
    visit("beta", beta);
    visit("first", first);
  }
};

}  // namespace op
}  // namespace ft
