// The mean over ranks of what each has, of which they tell each other a bit for every value (Tang et al.,
// "1-bit Adam", ICML 2021, algorithm 1). For a parameter of n values and ranks r, q = 0 ... N - 1:
//   s_r = |x_r| / sqrt(n), sent_r = s_r sign(x_r), x_r = x_r - sent_r    on every rank, which keeps x_r
//   p = mean over r of sent_r + lost_q, t_q = |p| / sqrt(its length)     on rank q, of its share of values
//   mean = t_q sign(p), lost_q = p - mean                                which it tells everybody
// with sign(0) = 1. Every rank gets the same bits.
#pragma once
#include <span>

#include "engine/core/arena.h"
#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"

namespace ft {

struct SignSum {  // of one parameter; f32
  Tensor mean;    // (n)
  Tensor x;       // (n)
  Tensor lost;    // (Share::of(n, rank, ranks).count)
};

// All of them in two messages to every other rank, of at most n / 8 / N + 13 bytes for each and 4.
void sum_signs(Ops&, Communicator&, std::span<const SignSum>, Arena& scratch);

}  // namespace ft
