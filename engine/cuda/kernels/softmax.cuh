// Softmax over scores that arrive in steps. Lanes share rows as in mma.cuh's fragments.
#pragma once
#include "engine/cuda/kernels/attention_mma.cuh"

namespace ft::cuda {

// Rescales sums to the new maxima.
template <int kM, int kN>
__device__ void shrink_all(float (&sums)[kM][kN][4], const float (&shrink)[kM][2]) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int j = 0; j < 4; ++j) sums[m][n][j] *= shrink[m][j / 2];
}

// A running softmax in powers of 2, for 16 kM rows.
template <int kM>
class Softmax {
 public:
  __device__ Softmax() {
    for (int i = 0; i < 2 * kM; ++i) top_[i / 2][i % 2] = kLowest, total_[i / 2][i % 2] = 0;
  }

  // Turns scores into probabilities relative to the rows' new maxima. shrink: factors for earlier sums;
  // returns false if all of the warp's are 1.
  template <int kN>
  __device__ bool step(float (&s)[kM][kN][4], float (&shrink)[kM][2], float power) {
    bool grew = false;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float old = top_[m][half];
        float now = old;
#pragma unroll
        for (int n = 0; n < kN; ++n) now = fmaxf(now, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        now = quad_largest(now);  // ignores a NaN, which the sums do not
        const float base = now == kLowest ? 0 : now * power;
        shrink[m][half] = power_of_2(old * power - base);
        grew |= now > old;
        float total = total_[m][half] * shrink[m][half];
#pragma unroll
        for (int n = 0; n < kN; ++n)
#pragma unroll
          for (int j = 2 * half; j < 2 * half + 2; ++j) {
            s[m][n][j] = power_of_2(s[m][n][j] * power - base);
            total += s[m][n][j];
          }
        top_[m][half] = now;
        total_[m][half] = total;
      }
    return __ballot_sync(~0u, grew) != 0;
  }

  // Sum of the probabilities so far, over this lane's columns.
  __device__ float total(int m, int half) const { return total_[m][half]; }

  // Divides the sums by the sums of probabilities, times `grown`, and writes the logarithms of rows [first,
  // last).
  template <int kN>
  __device__ void finish(float (&sums)[kM][kN][4], float grown, float scale, float* lse, int first,
                         int last) const {
    const Lane lane;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float total = quad_sum(total_[m][half]);
#pragma unroll
        for (int n = 0; n < kN; ++n)
#pragma unroll
          for (int j = 2 * half; j < 2 * half + 2; ++j) sums[m][n][j] *= grown / total;
        const int row = first + 16 * m + 8 * half + lane.g;
        if (lane.t == 0 && row < last) lse[row] = top_[m][half] * scale + logf(total);
      }
  }

 private:
  float top_[kM][2], total_[kM][2];  // top: before scaling; total: over this lane's columns
};

}  // namespace ft::cuda
