// The mean over ranks of each rank's values, exchanged with one bit per value (Tang et al., "1-bit Adam",
// ICML 2021, algorithm 1). For a parameter of n values and ranks r, q = 0 ... N - 1:
//   s_r = |x_r| / sqrt(n), sent_r = s_r sign(x_r), x_r = x_r - sent_r    on every rank, which keeps x_r
//   p = mean over r of sent_r + lost_q, t_q = |p| / sqrt(its length)     on rank q, for its share of values
//   mean = t_q sign(p), lost_q = p - mean                                which it sends to all ranks
// with sign(0) = 1. Every rank gets the same bits.
#pragma once
#include <span>

#include "engine/core/arena.h"
#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"

namespace ft {

struct SignSum {  // for one parameter; f32
  Tensor mean;    // (n)
  Tensor x;       // (n)
  Tensor lost;    // (Share::of(n, rank, ranks).count)
};

// Computes all means with two messages to every other rank. A message has at most 4 bytes, and n / 8 / N + 13
// bytes for each parameter.
void sum_signs(Ops&, Communicator&, std::span<const SignSum>, Arena& scratch);

}  // namespace ft
