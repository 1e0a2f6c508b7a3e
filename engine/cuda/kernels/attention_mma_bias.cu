// The gradient of a bias by distance on tensor cores: dbias[distance] = sum of ds = p (dp - delta) over all
// pairs at that distance. It is a separate pass over the queries, like the pass for dq, and runs only if the
// bias is trained: two more products.
//
// No two warps add to the same memory: each warp has its sums in shared memory, each block has its sums in
// global memory, and a second kernel adds them up. The order is fixed.
#include "engine/cuda/kernels/attention_extras.cuh"

namespace ft::cuda {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps, kWarpRows = 16, kRows = kWarps * kWarpRows;
constexpr int kStep = 64, kN = kStep / 8, kSlots = 2;
constexpr int kMostBlocks = 1024;  // several for each multiprocessor, with several tiles each
static_assert(kRows == kMmaRows && kRows == 2 * kStep);

template <int kColumns>
constexpr unsigned kHalf = kTileBytes<kStep, kColumns>;
template <int kColumns>
using KeyRing = Ring<kSlots, 2 * kHalf<kColumns>>;

// The sums of a warp.
class Diagonals {
 public:
  static constexpr unsigned bytes(i64 distances) {
    return static_cast<unsigned>((distances + 8 * kStride) * sizeof(float));
  }
  __device__ Diagonals(float* own, int reach) : sums_(own), skewed_(own + 2 * reach + 1), reach_(reach) {
    for (int i = this_lane(); i < 2 * reach + 1 + 8 * kStride; i += 32) own[i] = 0;
    __syncwarp();
  }

  // Adds ds of 16 rows and kStep columns. First a lane adds its elements at the same distance in rows g and g
  // + 8. Then the lines g are shifted such that each distance is a column, which one lane sums.
  __device__ void add(const float (&ds)[1][kN][4], int row, int column) {
    const int least = column - row - 15;  // distance
    if (least >= reach_ || least + kDistances - 1 <= -reach_) return add_beyond(ds, least >= reach_);
    const Lane lane;
    float* line = skewed_ + lane.g * kStride + 2 * lane.t - lane.g + 7;
#pragma unroll
    for (int i = 0; i <= kN; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j)
        line[8 * i + j] = (i > 0 ? ds[0][i > 0 ? i - 1 : 0][j] : 0) + (i < kN ? ds[0][i % kN][2 + j] : 0);
    __syncwarp();
    for (int i = this_lane(); i < kDistances; i += 32) {
      float sum = 0;
#pragma unroll
      for (int g = 0; g < 8; ++g) sum += skewed_[g * kStride + i];
      const int distance = least + i;
      if (distance > reach_)
        beyond_[1] += sum;
      else if (distance < -reach_)
        beyond_[0] += sum;
      else
        sums_[reach_ + distance] += sum;
    }
    __syncwarp();
  }

  // Completes the sums; other threads may read them after a barrier.
  __device__ void end() {
    const float before = warp_sum(beyond_[0]), after = warp_sum(beyond_[1]);
    if (this_lane() > 0) return;
    sums_[0] += before;
    sums_[2 * reach_] += after;
  }

 private:
  static constexpr int kDistances = kStep + 15;   // of 16 rows and kStep columns
  static constexpr int kStride = kDistances + 5;  // at most two lanes use the same bank
  static __device__ int this_lane() { return static_cast<int>(threadIdx.x % 32); }
  __device__ void add_beyond(const float (&ds)[1][kN][4], bool after) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < 4 * kN; ++i) sum += ds[0][i / 4][i % 4];
    beyond_[after ? 1 : 0] += sum;
  }

  float *sums_, *skewed_;
  int reach_;
  float beyond_[2] = {};  // this lane's sums
};

// Adds the sums of a block's tile of queries: its warps' rows with all keys.
template <class T, int kColumns, class Extras>
__device__ void add_tile(const Attention& c, const MmaTensors<T>& t, const Tile& tile, const Extras& extras,
                         Diagonals& sums) {
  const Lane lane;
  const i64 number = blockIdx.y, head = c.first_key_head * c.group + number, key_head = head / c.group;
  const int last = lesser(tile.end, tile.first + kRows), warp = this_warp();
  const int first = tile.first + warp * kWarpRows, warp_last = lesser(last, first + kWarpRows);
  const Band band = Band::of_queries(c, tile);
  const int end = band.end(last - 1);
  const Places<kColumns> down = Places<kColumns>::down(), across = Places<kColumns>::across();
  const unsigned own = static_cast<unsigned>(warp) * kTileBytes<kWarpRows, kColumns>;
  KeyRing<kColumns> ring(shared_address(&shared_memory<unsigned char>()));
  const auto fetch_step = [&](unsigned slot, int at) {
    if (at < end) {
      fetch<kStep, kColumns, kThreads>(slot, t.head(t.k, key_head), at, end);
      fetch<kStep, kColumns, kThreads>(slot + kHalf<kColumns>, t.head(t.v, key_head), at, end);
    }
    commit_copies();
  };
  fetch<kRows, kColumns, kThreads>(ring.slot(0), t.head(t.q, head), tile.first, last);
  fetch<kRows, kColumns, kThreads>(ring.slot(1), t.head(t.dy, head), tile.first, last);
  commit_copies();
  float lse[2] = {-kLowest, -kLowest}, delta[2] = {};  // rows beyond the end have no probabilities
  for (int half = 0; half < 2; ++half) {
    const int query = first + lane.g + 8 * half;
    if (query >= last) continue;
    lse[half] = c.lse[head * c.q.rows + query] * kLog2e;
    delta[half] = extras.shrunk(c.delta[number * c.q.rows + query]);
  }
  wait_for_copies<0>();
  __syncthreads();  // the queries and dy have arrived
  const Held<1, kColumns> q(ring.slot(0) + own, down), dy(ring.slot(1) + own, down);
  __syncthreads();  // they are in registers
  const typename Extras::Kept blocks(c, tile);
  const auto step_from = [&](int at) {
    return blocks.template step_of_queries<kStep>(head, tile.first, last, at, end);
  };
  int from = step_from(blocks.aligned(extras.aligned(band.begin_of(tile, tile.first), tile.from)));
  fetch_step(ring.slot(0), from);
  for (int next; from < end; from = next) {
    next = step_from(from + kStep);
    wait_for_copies<0>();
    __syncthreads();  // this step's keys have arrived, and the other slot is free
    fetch_step(ring.last(), next);
    const unsigned keys = ring.current();
    ring.advance();
    if (!band.any(first, warp_last, from, kStep)) continue;
    if (!blocks.any(head, first, warp_last, from, kStep)) continue;
    const auto kept = extras.template kept_of_queries<1, kN>(first, from - tile.from);
    float s[1][kN][4], ds[1][kN][4] = {};
    extras.begin(s, first, from);
    multiply<T>(s, q, keys, across);
    if (!band.all(first, warp_last, from, kStep)) hide(s, band, first, from);
    blocks.hide_of_queries(s, head, first, from);
    multiply<T>(ds, dy, keys + kHalf<kColumns>, across);
    extras.drop(ds, kept);
    gradients_of_scores(ds, s, delta, lse, c.scale * kLog2e);
    sums.add(ds, first, from);
  }
}

// Grid (blocks, heads): blocks take tiles in turns. parts (blocks, heads of the call, distances); unused with
// one block.
template <class T, int kColumns, class Extras>
__global__ void __launch_bounds__(kThreads, 1) gradient_of_bias(Attention c, MmaTensors<T> t, float* parts) {
  constexpr unsigned kTiles = KeyRing<kColumns>::kBytesOfAll;
  Extras extras(c, kTiles);
  const int distances = static_cast<int>(c.bias.rows);
  const i64 head = c.first_key_head * c.group + static_cast<i64>(blockIdx.y);
  extras.template load<T>(c, head, 1);
  const unsigned own = Diagonals::bytes(distances) / unsigned{sizeof(float)};
  float* all = reinterpret_cast<float*>(&shared_memory<unsigned char>() + kTiles) + distances;
  Diagonals sums(all + static_cast<unsigned>(this_warp()) * own, distances / 2);
  for (i64 n = blockIdx.x; n < c.n_tiles; n += gridDim.x) {
    __syncthreads();  // all slots are free
    add_tile<T, kColumns, Extras>(c, t, c.tiles[n], extras, sums);
  }
  sums.end();
  __syncthreads();
  float* dbias = static_cast<float*>(c.dbias.data) + head;
  for (int i = static_cast<int>(threadIdx.x); i < distances; i += kThreads) {
    float sum = 0;
    for (unsigned warp = 0; warp < kWarps; ++warp) sum += all[warp * own + static_cast<unsigned>(i)];
    sum *= extras.grown();
    if (gridDim.x == 1)
      dbias[i * c.dbias.stride] += sum;
    else
      parts[(i64{blockIdx.x} * gridDim.y + blockIdx.y) * distances + i] = sum;
  }
}

// dbias += the parts of all blocks. Grid (heads).
__global__ void __launch_bounds__(kThreads) add_parts(Attention c, const float* parts, int blocks) {
  const i64 distances = c.dbias.rows, head = c.first_key_head * c.group + static_cast<i64>(blockIdx.x);
  for (i64 i = threadIdx.x; i < distances; i += kThreads) {
    float sum = 0;
    for (int n = 0; n < blocks; ++n) sum += parts[(i64{n} * gridDim.x + blockIdx.x) * distances + i];
    static_cast<float*>(c.dbias.data)[i * c.dbias.stride + head] += sum;
  }
}

}  // namespace

void attention_mma_bias_grad(cudaStream_t stream, const Attention& c) {
  if (c.n_tiles == 0) return;
  const i64 heads = i64{c.key_heads} * c.group, part = heads * c.bias.rows;
  const i64 room = part > c.spare_floats ? 1 : c.spare_floats / part;
  const unsigned blocks = at_most(room < c.n_tiles ? room : c.n_tiles, ceil_div(kMostBlocks, heads));
  with_type_and_columns(c, [&](auto type, auto columns) {
    using T = decltype(type);
    const std::size_t shared =
        KeyRing<columns>::kBytesOfAll + BiasAndDropout::bytes(c) + kWarps * Diagonals::bytes(c.bias.rows);
    launch(
        "attention_grad", {stream, dim3(blocks, static_cast<unsigned>(heads)), kThreads, shared},
        c.blocks.bits ? gradient_of_bias<T, columns, Sparse> : gradient_of_bias<T, columns, BiasAndDropout>,
        c, MmaTensors<T>(c), c.spare);
  });
  if (blocks > 1)
    launch("attention_grad", {stream, dim3(static_cast<unsigned>(heads)), kThreads}, add_parts, c, c.spare,
           static_cast<int>(blocks));
}

}  // namespace ft::cuda
