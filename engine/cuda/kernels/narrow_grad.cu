// The gradients of a narrow matrix, such as an adapter's, and of its input, in one read of dy. A block takes
// a strip of 512 columns of dy, 64 for each warp, in a band of rows, 32 at a time. A warp keeps the sums of
// db for its columns in registers; the warps' sums of du are added up in shared memory. A second kernel adds
// up the sums of strips and of bands in order, which depends only on the shapes.
#include "engine/cuda/kernels/narrow_grad.h"

#include "engine/cuda/kernels/tiles.cuh"

namespace ft::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32, kPanel = 64, kStrip = kWarps * kPanel, kStepRows = 32;
constexpr int kSlots = 4, kBlocks = 132;  // an H200 has this number of multiprocessors
constexpr unsigned kPanelTile = kTileBytes<kStepRows, kPanel>;

// Division of dy into strips, and into bands of `rows` rows.
struct Cut {
  int strips, bands, rows;
  Cut(i64 m, i64 n) : strips(static_cast<int>(ceil_div(n, kStrip))) {
    const i64 steps = ceil_div(m, kStepRows), most = strips < kBlocks ? kBlocks / strips : 1,
              each = ceil_div(steps, most < steps ? most : steps);
    bands = static_cast<int>(ceil_div(steps, each));
    rows = static_cast<int>(each) * kStepRows;
  }
};

// Shared memory: slots for a step's rows of dy and u, then every warp's sums of du, for two steps. At first
// b's strip is in the slots.
template <int kR>
struct Shared {
  static constexpr unsigned kSlot = kWarps * kPanelTile + kTileBytes<kStepRows, kR>,
                            kSums = kStepRows * kR * 4, kBytes = kSlots * kSlot + 2 * kWarps * kSums;
  static_assert(kTileBytes<kStrip, kR> <= kSlots * kSlot);
  unsigned begin;
  __device__ unsigned dy(int step, int panel) const {
    return begin + static_cast<unsigned>(step % kSlots) * kSlot + static_cast<unsigned>(panel) * kPanelTile;
  }
  __device__ unsigned u(int step) const { return dy(step, kWarps); }
  __device__ float* sums(int step, int warp) const {
    const auto at = static_cast<unsigned>(step % 2 * kWarps + warp);
    return static_cast<float*>(shared_pointer(begin + kSlots * kSlot + at * kSums));
  }
};

template <class T>
struct Operands {
  Rows<T> dy, b, u;
  int m, n, r, rows;  // rows of a band
  float *du, *db;     // (strips, m, r), (bands, n, r)
};

// The part of one block.
template <class T, int kR>
class Part {
 public:
  __device__ explicit Part(const Operands<T>& o)
      : o_(o),
        shared_{shared_address(&shared_memory<unsigned char>())},
        warp_(this_warp()),
        first_(static_cast<int>(blockIdx.y) * o.rows),
        last_(first_ + o.rows < o.m ? first_ + o.rows : o.m),
        steps((last_ - first_ + kStepRows - 1) / kStepRows) {
    const Head<T> b(o.b, 0, o.r, true);
    for (int row = 0; row < kStrip; row += kStepRows)
      fetch<kStepRows, kR, kThreads>(shared_.begin + static_cast<unsigned>(row * Layout<kR>::kRowBytes), b,
                                     first_column() + row, o.n);
    commit_copies();
    wait_for_copies<0>();
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kPanel / 16; ++k)
#pragma unroll
      for (int n = 0; n < kR / 16; ++n)
        load_matrices_transposed(
            b_[k][n],
            shared_.begin + kTileBytes<16, kR> * static_cast<unsigned>(warp_ * kPanel / 16 + k) + down_[n]);
    __syncthreads();
  }

  __device__ void begin(int step) const {
    if (step < steps) {
      const Head<T> dy = Head<T>(o_.dy, 0, o_.n, true).from_column(first_column());
      const int row = first_ + step * kStepRows;
#pragma unroll
      for (int p = 0; p < kWarps; ++p)
        fetch<kStepRows, kPanel, kThreads>(shared_.dy(step, p), dy.from_column(p * kPanel), row, last_);
      fetch<kStepRows, kR, kThreads>(shared_.u(step), Head<T>(o_.u, 0, o_.r, true), row, last_);
    }
    commit_copies();
  }
  __device__ void multiply(int step) {
    const unsigned dy = shared_.dy(step, warp_), u = shared_.u(step);
    float du[kStepRows / 16][kR / 8][4] = {};
    const Places<kPanel> down = Places<kPanel>::down(), across = Places<kPanel>::across();
#pragma unroll
    for (int m = 0; m < kStepRows / 16; ++m) {
      const unsigned rows = dy + static_cast<unsigned>(m) * kTileBytes<16, kPanel>;
      unsigned a[4], right[kR / 16][4];
#pragma unroll
      for (int k = 0; k < kPanel / 16; ++k) {
        load_matrices(a, rows + down[k]);
        add(du[m], a, b_[k]);
      }
#pragma unroll
      for (int n = 0; n < kR / 16; ++n)
        load_matrices_transposed(right[n], u + static_cast<unsigned>(m) * kTileBytes<16, kR> + down_[n]);
#pragma unroll
      for (int c = 0; c < kPanel / 16; ++c) {
        load_matrices_transposed(a, rows + across[c]);
        add(db_[c], a, right);
      }
    }
    const Lane lane;
    float* sums = shared_.sums(step, warp_);
#pragma unroll
    for (int i = 0; i < kStepRows * kR / 32; ++i) {
      const int m = i / (kR / 2), n = i / 4 % (kR / 8), half = i % 4 / 2, j = i % 2;
      sums[(16 * m + lane.g + 8 * half) * kR + 8 * n + 2 * lane.t + j] = du[m][n][2 * half + j];
    }
  }
  // Adds up the warps' sums of du.
  __device__ void put_du(int step) const {
    for (int e = static_cast<int>(threadIdx.x); e < kStepRows * kR; e += kThreads) {
      float sum = 0;
      for (int w = 0; w < kWarps; ++w) sum += shared_.sums(step, w)[e];
      const int row = first_ + step * kStepRows + e / kR, column = e % kR;
      if (row < last_ && column < o_.r) o_.du[(i64{blockIdx.x} * o_.m + row) * o_.r + column] = sum;
    }
  }
  __device__ void put_db() const {
    const Lane lane;
#pragma unroll
    for (int i = 0; i < kPanel * kR / 32; ++i) {
      const int c = i / (kR / 2), n = i / 4 % (kR / 8), half = i % 4 / 2, j = i % 2;
      const int row = first_column() + warp_ * kPanel + 16 * c + lane.g + 8 * half,
                column = 8 * n + 2 * lane.t + j;
      if (row < o_.n && column < o_.r)
        o_.db[(i64{blockIdx.y} * o_.n + row) * o_.r + column] = db_[c][n][2 * half + j];
    }
  }

 private:
  __device__ static int first_column() { return static_cast<int>(blockIdx.x) * kStrip; }
  __device__ static void add(float (&d)[kR / 8][4], const unsigned (&a)[4],
                             const unsigned (&right)[kR / 16][4]) {
#pragma unroll
    for (int n = 0; n < kR / 16; ++n) {
      mma(T{}, d[2 * n], a, right[n][0], right[n][1]);
      mma(T{}, d[2 * n + 1], a, right[n][2], right[n][3]);
    }
  }

  const Operands<T>& o_;
  Shared<kR> shared_;
  int warp_, first_, last_;
  Places<kR> down_ = Places<kR>::down();
  unsigned b_[kPanel / 16][kR / 16][4];
  float db_[kPanel / 16][kR / 8][4] = {};

 public:
  int steps;
};

template <class T, int kR>
__global__ void __launch_bounds__(kThreads, 1) sum_parts(Operands<T> o) {
  Part<T, kR> part(o);
  for (int step = 0; step < kSlots - 1; ++step) part.begin(step);
  for (int step = 0; step < part.steps; ++step) {
    wait_for_copies<kSlots - 2>();
    __syncthreads();
    part.begin(step + kSlots - 1);
    if (step > 0) part.put_du(step - 1);
    part.multiply(step);
  }
  __syncthreads();
  part.put_du(part.steps - 1);
  part.put_db();
}

template <class T, class D>
__global__ void add_up(Operands<T> o, Rows<T> du, Rows<D> db, float alpha, int strips, int bands) {
  const i64 e = i64{blockIdx.x} * kThreads + threadIdx.x, mine = i64{o.m} * o.r, other = i64{o.n} * o.r;
  if (e < mine) {
    float sum = 0;
    for (int s = 0; s < strips; ++s) sum += o.du[s * mine + e];
    round_to(*du.at(e / o.r, e % o.r), alpha * sum);
  } else if (e < mine + other) {
    D* const to = db.at((e - mine) / o.r, (e - mine) % o.r);
    float sum = widened(*to);
    for (int b = 0; b < bands; ++b) sum += o.db[b * other + e - mine];
    round_to(*to, sum);
  }
}

}  // namespace

std::int64_t narrow_grad_floats(std::int64_t m, std::int64_t n, std::int64_t r) {
  const Cut cut(m, n);
  return (cut.strips * m + cut.bands * n) * r;
}

void narrow_grad(cudaStream_t stream, const NarrowGrads& g) {
  const i64 m = g.dy.rows, n = g.dy.cols, r = g.b.cols;
  const Cut cut(m, n);
  with_float(g.dy.type, [&](auto type) {
    using T = decltype(type);
    if constexpr (!std::is_same_v<T, float>) {
      const Operands<T> o{
          Rows<T>(g.dy),       Rows<T>(g.b), Rows<T>(g.u), static_cast<int>(m),           static_cast<int>(n),
          static_cast<int>(r), cut.rows,     g.partial,    g.partial + cut.strips * m * r};
      const dim3 grid(static_cast<unsigned>(cut.strips), static_cast<unsigned>(cut.bands));
      if (r <= 16)
        launch("narrow_grad", {stream, grid, kThreads, Shared<16>::kBytes}, sum_parts<T, 16>, o);
      else
        launch("narrow_grad", {stream, grid, kThreads, Shared<32>::kBytes}, sum_parts<T, 32>, o);
      const Launch all{stream, dim3(static_cast<unsigned>(ceil_div((m + n) * r, kThreads))), kThreads};
      if (g.db.type == DType::f32)
        launch("narrow_grad", all, add_up<T, float>, o, Rows<T>(g.du), Rows<float>(g.db), g.alpha, cut.strips,
               cut.bands);
      else
        launch("narrow_grad", all, add_up<T, T>, o, Rows<T>(g.du), Rows<T>(g.db), g.alpha, cut.strips,
               cut.bands);
    }
  });
}

}  // namespace ft::cuda
