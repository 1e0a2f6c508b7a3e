// Memory in which the gated delta rule is computed, as lists of matrices: for a chunk of a key head on a CPU
// (delta_chunk.h), for all rows at a time on a GPU (engine/cuda/kernels/delta_rule.h).
#pragma once
#include <cstdint>

#include "engine/core/dtype.h"
#include "engine/ops/recurrent.h"

namespace ft {

// Most rows of a chunk.
inline constexpr std::int64_t kDeltaChunk = 64;

// Added to the squared length of queries and keys that are normalised.
inline constexpr float kDeltaEps = 1e-6f;

// Columns that a matrix of n columns has in memory: whole vectors of any CPU.
FT_HD constexpr std::int64_t delta_columns(std::int64_t n) { return (n + 15) / 16 * 16; }

// A matrix of f32 with `ld` elements from one row to the next.
struct DeltaMatrix {
  float* data = nullptr;
  std::int64_t ld = 0;
  FT_HD float* row(std::int64_t r) const { return data + r * ld; }
  FT_HD float& operator()(std::int64_t r, std::int64_t c) const { return data[r * ld + c]; }
};

// L rows of a chunk, k and v columns of a head; r value heads for each key head. The members after `state`
// are for the gradient.
struct DeltaRoom {
  DeltaMatrix q, k, kt;            // (L, k) normalised, (L, k) normalised, (k, L)
  DeltaMatrix kk, qk;              // (L, L) k k^T and q k^T
  DeltaMatrix decay, a, p;         // (L, L) e^(g_i - g_j), the system below its diagonal, the probabilities
  DeltaMatrix v, read, d, o;       // (L, v) values, S^T k, d, results
  float *q_rstd, *k_rstd;          // (L)
  float *sum, *up, *rest, *beta;   // (L) sums of g, e^sum, e^(last sum - sum), beta
  DeltaMatrix state;               // (r k, v)
  DeltaMatrix dq, dk, t;           // (L, k), and temporary
  DeltaMatrix dp, da, pull;        // (L, L) gradients of p and a, and of sum_i - sum_j
  DeltaMatrix dd, dr, grad, back;  // (L, v) gradients of d, of the system's right side, of o; K dS
  DeltaMatrix dt;                  // (v, L) d^T
  DeltaMatrix dstate;              // (r k, v)
  DeltaMatrix turned;              // (v, k) transposed state
  float *dsum, *pulls, *dots;      // (L) gradient of sum, (L) and (k) temporary
  std::int64_t elements = 0;
};

// Lays the matrices out from `at` on. gradient: adds the matrices for the gradient.
FT_HD inline DeltaRoom delta_room(const DeltaHeads& h, float* at, bool gradient) {
  DeltaRoom m;
  float* const begin = at;
  const std::int64_t L = kDeltaChunk, k = delta_columns(h.key_width), v = delta_columns(h.value_width),
                     group = h.values / h.keys;
  const auto floats = [&](std::int64_t n) {
    float* const from = at;
    at += delta_columns(n);
    return from;
  };
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return DeltaMatrix{floats(rows * columns), columns};
  };
  m.q = matrix(L, k), m.k = matrix(L, k), m.kt = matrix(k, L);
  m.kk = matrix(L, L), m.qk = matrix(L, L);
  m.decay = matrix(L, L), m.a = matrix(L, L), m.p = matrix(L, L);
  m.v = matrix(L, v), m.read = matrix(L, v), m.d = matrix(L, v), m.o = matrix(L, v);
  m.q_rstd = floats(L), m.k_rstd = floats(L);
  m.sum = floats(L), m.up = floats(L), m.rest = floats(L), m.beta = floats(L);
  m.state = matrix(group * h.key_width, v);
  if (gradient) {
    m.dq = matrix(L, k), m.dk = matrix(L, k), m.t = matrix(L, k);
    m.dp = matrix(L, L), m.da = matrix(L, L), m.pull = matrix(L, L);
    m.dd = matrix(L, v), m.dr = matrix(L, v), m.grad = matrix(L, v), m.back = matrix(L, v);
    m.dt = matrix(v, L);
    m.dstate = matrix(group * h.key_width, v);
    m.turned = matrix(v, k);
    m.dsum = floats(L), m.pulls = floats(L), m.dots = floats(k);
  }
  m.elements = at - begin;
  return m;
}

// The memory on a GPU, whose matrices have the operation's rows. A row of a chunk's matrix has kDeltaChunk
// columns. The members after `k_rstd` are for the gradient.
struct DeltaGpuRoom {
  DeltaMatrix inverse, p;           // (rows, V 64) (I + A)^-1 and P; then the gradients of k k^T and q k^T
  DeltaMatrix sum, q_rstd, k_rstd;  // (rows, V) sums of g in the chunk; the same for all heads of a group
  DeltaMatrix d, dr;                // (rows, V v) d, and the gradient of the system's right side
  DeltaMatrix q_dot, k_dot;         // (rows, V) products of a normalised row with its gradient
  DeltaMatrix dstates;              // (rows / 64, V k v) gradients of the states between chunks
  std::int64_t elements = 0;
};

// Lays the matrices out from `at` on. gradient: adds the matrices for the gradient.
FT_HD inline DeltaGpuRoom delta_gpu_room(const DeltaHeads& h, std::int64_t rows, float* at, bool gradient) {
  DeltaGpuRoom m;
  float* const begin = at;
  const auto matrix = [&](std::int64_t n, std::int64_t columns) {
    float* const from = at;
    at += delta_columns(n * columns);
    return DeltaMatrix{from, columns};
  };
  m.inverse = matrix(rows, h.values * kDeltaChunk), m.p = matrix(rows, h.values * kDeltaChunk);
  m.sum = matrix(rows, h.values), m.q_rstd = matrix(rows, h.values), m.k_rstd = matrix(rows, h.values);
  if (gradient) {
    const std::int64_t v = h.values * h.value_width;
    m.d = matrix(rows, v), m.dr = matrix(rows, v);
    m.q_dot = matrix(rows, h.values), m.k_dot = matrix(rows, h.values);
    m.dstates = matrix(rows / kDeltaChunk, v * h.key_width);
  }
  m.elements = at - begin;
  return m;
}

}  // namespace ft
