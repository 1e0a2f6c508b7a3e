// The gradient of the gated delta rule: step 3 of delta_rule.h, and the order of the steps.
#include "engine/cuda/kernels/delta_slices.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

template <class Slice>
class StateGradients {
 public:
  __device__ StateGradients(const DeltaOperands& x, const DeltaGpuRoom& room)
      : x_(x), room_(room), slice_(x, room) {}

  // Follows the sequence that ends with row `end`.
  __device__ void follow(i64 end) {
    const i64 from = x_.first[end], last = from + (end - from) / kChunk * kChunk;
    __syncthreads();  // all threads have left the sequence before
    slice_.load_state(nullptr);
    for (i64 row = last;; row -= kChunk) {
      __syncthreads();
      if (row < last) slice_.store_state(slice_.stored(room_.dstates, row / kChunk));
      if (row == from) break;
      compute(row, row == last ? static_cast<int>(end + 1 - row) : kChunk);
    }
  }

 private:
  using Sums = typename Slice::Sums;
  static constexpr int kRow = Slice::kLd;

  __device__ void compute(i64 row, int count) {
    const DeltaFactors& by = slice_.by;
    float *const grad = slice_.a, *const d = slice_.b;
    slice_.begin(row, count, true);
    const auto p = slice_.template triangle<true>(room_.p);
    Sums o_grad, sum = {}, right = {}, none = {};
    slice_.load(o_grad, x_.o_grad);
    slice_.each(o_grad, [&](int r, int c, float& s) { grad[r * kRow + c] = s; });
    slice_.finish();
    const auto inverse = slice_.template triangle<true>(room_.inverse);
    slice_.template read<false>(sum, none);
    slice_.each(sum, [&](int r, int, float& s) { s *= by.rest[r] * by.k[r]; });
    slice_.template add<true>(sum, p, grad);
    slice_.each(sum, [&](int r, int c, float& s) { d[r * kRow + c] = s; });
    __syncthreads();
    slice_.template add<true>(right, inverse, d);
    __syncthreads();
    slice_.each(right, [&](int r, int c, float& s) { d[r * kRow + c] = s; });
    __syncthreads();
    slice_.advance([&](auto& sums, int m, int at) {
      slice_.plus(sums, m, at, true, grad, [&](int r) { return by.up[r] * by.q[r]; });
      slice_.plus(sums, m, at, false, d, [&](int r) { return -by.beta[r] * by.up[r] * by.k[r]; });
    });
  }

  const DeltaOperands& x_;
  const DeltaGpuRoom& room_;
  Slice slice_;
};

template <class Slice>
__global__ void __launch_bounds__(kDeltaThreads)
    delta_state_gradients(const __grid_constant__ DeltaOperands x, const __grid_constant__ DeltaGpuRoom room,
                          int window) {
  StateGradients<Slice> gradients(x, room);
  each_row_of_window(
      x.q.rows, window, [&](i64 row) { return row + 1 == x.q.rows || x.first[row + 1] == row + 1; },
      [&](i64 row) { gradients.follow(row); });
}

void queue_state_gradients(const DeltaOperands& x, cudaStream_t stream) {
  const int window = delta_window(x.q.rows);
  with_float(x.q.type, [&](auto t) {
    with_slice<decltype(t)>(x.heads, [&](auto* slice, int columns, std::size_t shared) {
      using Slice = std::remove_pointer_t<decltype(slice)>;
      launch("delta_state_gradients", {stream, grid_of(x, window, columns), kDeltaThreads, shared},
             delta_state_gradients<Slice>, x, room_of(x), window);
    });
  });
}

}  // namespace

void compute(const op::DeltaRuleGrad& op, const Queue& queue) {
  const DeltaOperands x = operands_of(op);
  if (x.q.rows == 0) return;
  require_room(x);
  queue_chunks(x, queue.stream);
  queue_states(x, queue.stream);
  queue_state_gradients(x, queue.stream);
  queue_operand_gradients(x, queue.stream);
}

}  // namespace ft::cuda
