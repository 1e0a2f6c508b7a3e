// Sums of products with products of warpgroups. A block stays on its multiprocessor and computes one tile of
// y after another, 128 x 256. Its first warpgroup loads: one thread requests boxes of operands, 64 deep, into
// four stages, for all terms and on into the next tile. The two others, the consumers, multiply 64 rows each,
// with all sums in registers, and write their part of the tile while loading continues. Barriers count the
// boxes that have arrived, and the warps that have read them.
//
// Two blocks are a cluster. They compute two tiles, one below the other, which need the same part of b: each
// block loads half of it for both. This saves a third of the reads of the L2. A stage is filled again when
// both blocks have read it.
//
// A row's sums are taken in the same order, by term, then by depth, for any place of the row and any number
// of rows and of multiprocessors.
//
// Clusters that run at the same time take pairs of tiles from a band of 16 tiles' rows, column by column, so
// that the GPU's L2 holds the operands that they load: about 2,000 rows of a and as many columns of b.
#include "engine/cuda/kernels/products_wgmma.h"

#include "engine/cuda/kernels/tma.cuh"
#include "engine/cuda/kernels/wgmma.cuh"

namespace ft::cuda {
namespace {

constexpr int kConsumers = 2, kThreadsOfAll = (1 + kConsumers) * kGroupThreads;
constexpr int kFetchersRegisters = 24, kConsumersRegisters = 240;
constexpr int kCluster = 2, kPairRows = kCluster * kTileRows;
constexpr int kBand = 8;  // number of rows of pairs
constexpr int kStages = 4, kStep = kPanelColumns;
constexpr unsigned kBytesOfA = kTileBytes<kTileRows, kStep>, kBytesOfB = kTileBytes<kTileColumns, kStep>,
                   kStageBytes = kBytesOfA + kBytesOfB;
static_assert(kTileRows == kConsumers * kPanelRows && kTileRows == kBoxRows && kStep == kBoxRowsDown);

// A warp writes its 16 rows in pieces of 64 columns.
constexpr int kPieceColumns = 64, kPieceRowBytes = 4 * kPieceColumns;
constexpr unsigned kPieceBytes = 16 * kPieceRowBytes;

// Shared memory: the stages, a piece for every consumer's warps, the barriers.
constexpr int kConsumerWarps = kConsumers * 4;
constexpr unsigned kPieces = kStages * kStageBytes, kBarriers = kPieces + kConsumerWarps * kPieceBytes,
                   kShared = kBarriers + 2 * kStages * 8 + kSpare;

// A position in the ring of stages.
struct Turn {
  unsigned stage = 0, parity = 0;
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
};

struct Room {
  unsigned begin;
  __device__ unsigned a(unsigned stage) const { return begin + stage * kStageBytes; }
  __device__ unsigned b(unsigned stage) const { return a(stage) + kBytesOfA; }
  __device__ unsigned full(unsigned stage) const { return begin + kBarriers + 8 * stage; }
  __device__ unsigned read(unsigned stage) const { return full(stage) + 8 * kStages; }
};

// Pairs of tiles, in the order in which clusters take them.
struct Pairs {
  int down, across;
  explicit __host__ __device__ Pairs(const View& y)
      : down(static_cast<int>((y.rows + kPairRows - 1) / kPairRows)),
        across(static_cast<int>((y.cols + kTileColumns - 1) / kTileColumns)) {}
  __host__ __device__ int count() const { return down * across; }
};
struct Corner {
  int row, column;
  // This block's tile of pair n.
  __device__ Corner(const Pairs& pairs, int n) {
    const int band = n / (kBand * pairs.across), first = band * kBand, left = pairs.down - first,
              rows = left < kBand ? left : kBand, within = n - first * pairs.across;
    row = (first + within % rows) * kPairRows + cluster_rank() * kTileRows;
    column = within / rows * kTileColumns;
  }
};
// Calls f(corner) for each tile that this block computes.
template <class F>
__device__ void each_tile(const View& y, F f) {
  const Pairs pairs(y);
  for (int n = static_cast<int>(blockIdx.x) / kCluster; n < pairs.count();
       n += static_cast<int>(gridDim.x) / kCluster)
    f(Corner(pairs, n));
}

template <bool a_down, bool b_down>
__device__ void fetch_step(const OnePass::Operands& term, const Corner& at, int k, const Room& room,
                           unsigned stage) {
  const unsigned a = room.a(stage), b = room.b(stage), full = room.full(stage);
  announce(full, kStageBytes);
  if constexpr (a_down) {
#pragma unroll
    for (int p = 0; p < kTileRows / kPanelColumns; ++p)
      fetch_box(a + static_cast<unsigned>(p) * kPanelBytes, term.a, k, at.row + p * kPanelColumns, full);
  } else {
    fetch_box(a, term.a, at.row, k, full);
  }
  // Loads half of b for both blocks.
  const int half = cluster_rank();
  if constexpr (b_down) {
    constexpr int kPanels = kTileColumns / kPanelColumns / kCluster;
#pragma unroll
    for (int p = half * kPanels; p < (half + 1) * kPanels; ++p)
      fetch_box_for_all(b + static_cast<unsigned>(p) * kPanelBytes, term.b, k, at.column + p * kPanelColumns,
                        full);
  } else {
    fetch_box_for_all(b + static_cast<unsigned>(half) * (kBytesOfB / kCluster), term.b,
                      at.column + half * kBoxRows, k, full);
  }
}

template <bool a_down, bool b_down>
__device__ void fetch(const OnePass& s, const Room& room) {
  Turn turn;
  each_tile(s.y, [&](const Corner& at) {
    for (int t = 0; t < s.count; ++t)
      for (int k = 0; k < s.terms[t].depth; k += kStep, turn.advance()) {
        wait_for_phase(room.read(turn.stage), turn.parity ^ 1);
        fetch_step<a_down, b_down>(s.terms[t], at, k, room, turn.stage);
      }
  });
}

// Reads the stages for a consumer.
template <class T, bool a_down, bool b_down>
class Reader {
 public:
  __device__ Reader(const Room& room, unsigned group) : room_(room), group_(group) {}

  // Begins d = the sum over all terms. The last products are under way until end().
  __device__ void begin_sum(float (&d)[kTileColumns / 8][4], const OnePass& s) {
    last_ = kStages;
    for (int t = 0; t < s.count; ++t) {
      int left = s.terms[t].depth;
#pragma unroll 1
      for (; left > kStep - kDepth; left -= kStep) step<4>(d);
      if (left > 2 * kDepth)
        step<3>(d);
      else if (left > kDepth)
        step<2>(d);
      else if (left > 0)
        step<1>(d);
    }
  }
  __device__ void end(float (&d)[kTileColumns / 8][4]) {
    wait_for_products<0>();
    settle(d);
    release();
  }

 private:
  // Multiplies kProducts times 16 columns of the next stage. The products and their commit have to be in one
  // function: otherwise the compiler would wait for all products.
  template <int kProducts>
  __device__ void step(float (&d)[kTileColumns / 8][4]) {
    const std::uint64_t a = operand(room_.a(turn_.stage) + group_ * kPanelBytes),
                        b = operand(room_.b(turn_.stage));
    wait_for_phase(room_.full(turn_.stage), turn_.parity);
    order_registers();
#pragma unroll
    for (int k = 0; k < kProducts; ++k)
      multiply_group<a_down, b_down>(T{}, d, a + (a_down ? down_by(k) : right_by(k)),
                                     b + (b_down ? down_by(k) : right_by(k)), k > 0 || last_ < kStages);
    commit_products();
    wait_for_products<1>();
    release();
    last_ = turn_.stage;
    turn_.advance();
  }
  // Tells both blocks that this warp has read the stage before the current one.
  __device__ void release() const {
    const int lane = static_cast<int>(threadIdx.x % 32);
    if (lane < kCluster && last_ < kStages) arrive_in(lane, room_.read(last_));
  }

  const Room& room_;
  unsigned group_, last_ = kStages;  // last_ = kStages: no stage
  Turn turn_;
};

// Two sums of a fragment; four neighbouring elements in words.
struct alignas(8) Pair {
  float of[2];
};
template <class T>
struct alignas(4 * sizeof(T)) Four {
  unsigned words[sizeof(T)];
};
__device__ inline float element(const Four<float>& v, int j) { return __builtin_bit_cast(float, v.words[j]); }
template <class T>
__device__ float element(const Four<T>& v, int j) {
  T t;
  t.bits = static_cast<std::uint16_t>(v.words[j / 2] >> (16 * (j % 2)));
  return widened(t);
}
__device__ inline Four<float> rounded(float, const float (&v)[4]) {
  Four<float> four;
  for (int j = 0; j < 4; ++j) four.words[j] = __builtin_bit_cast(unsigned, v[j]);
  return four;
}
template <class T>
__device__ Four<T> rounded(T type, const float (&v)[4]) {
  return {{pair_of(type, v[0], v[1]), pair_of(type, v[2], v[3])}};
}
// Loads the first `count` elements, one by one, and zeros after them.
template <class T>
__device__ Four<T> load_some(const T* p, int count) {
  float v[4];
  for (int j = 0; j < 4; ++j) v[j] = j < count ? widened(p[j]) : 0;
  return rounded(T{}, v);
}
template <class T>
__device__ Four<T> load_four(const T* p, int count) {
  return count == 4 ? *reinterpret_cast<const Four<T>*>(p) : load_some(p, count);
}
template <class T>
__device__ void store_four(T* p, const Four<T>& v, int count) {
  if (count == 4)
    *reinterpret_cast<Four<T>*>(p) = v;
  else
    for (int j = 0; j < 4; ++j)
      if (j < count) round_to(p[j], element(v, j));
}

// Writes a warp's 16 rows of a tile to memory, piece by piece; a lane has four neighbouring columns of every
// second row. kWhole: no row and no column is beyond y. kMatrix: a matrix is added; with kWhole it is loaded
// ahead.
//
// A piece in shared memory is rows of 16 chunks of four sums. Chunk c of row r is at place c ^ 2 (r % 4), so
// that fragments are written and rows are read without bank conflicts.
template <class T, class Y, bool kWhole, bool kMatrix>
class Writer {
 public:
  // own: the warp's piece in shared memory.
  __device__ Writer(const OnePass& s, unsigned own, int row, int column)
      : s_(s), own_(own), row_(row + first_row()), column_(column + 4 * chunk()) {
    if constexpr (kWhole && kMatrix) {
#pragma unroll
      for (int i = 0; i < kRows; ++i) ahead_[i] = load(i, 0);
    }
  }
  __device__ void put(const float (&d)[kTileColumns / 8][4]) {
#pragma unroll
    for (int p = 0; p < kTileColumns / kPieceColumns; ++p) {
      stage(d, p);
      __syncwarp();
      write(p);
      __syncwarp();
    }
  }

 private:
  static constexpr int kChunks = kPieceColumns / 4, kTogether = 32 / kChunks, kRows = 16 / kTogether;
  static __device__ int chunk() { return static_cast<int>(threadIdx.x) % kChunks; }
  static __device__ int first_row() { return static_cast<int>(threadIdx.x % 32) / kChunks; }

  __device__ int columns(int piece) const {
    if (kWhole) return 4;
    const i64 left = s_.y.cols - column_ - piece * kPieceColumns;
    return left < 4 ? static_cast<int>(left) : 4;
  }
  __device__ bool there(int i) const { return kWhole || row_ + i * kTogether < s_.y.rows; }
  __device__ Y* at(const View& x, int i, int piece) const {
    return static_cast<Y*>(x.data) + (row_ + i * kTogether) * x.stride + column_ + piece * kPieceColumns;
  }
  __device__ Four<Y> load(int i, int piece) const {
    return there(i) ? load_four(at(s_.c, i, piece), columns(piece)) : Four<Y>{};
  }
  // Loads the row that is added to every row.
  __device__ void load_row(float (&base)[4], int piece) const {
    const int column = column_ + piece * kPieceColumns, count = columns(piece);
    const auto from = [&](auto type) {
      using C = decltype(type);
      const Four<C> four = load_four(static_cast<const C*>(s_.c.data) + column, count);
      for (int j = 0; j < 4; ++j) base[j] = element(four, j);
    };
    s_.c.type == DType::f32 ? from(float{}) : from(T{});
  }

  __device__ void stage(const float (&d)[kTileColumns / 8][4], int piece) const {
    const Lane lane;
    const unsigned to = own_ + static_cast<unsigned>(lane.g * kPieceRowBytes + lane.t * 8);
#pragma unroll
    for (int n = 0; n < kPieceColumns / 8; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float(&of)[4] = d[piece * kPieceColumns / 8 + n];
        const auto mixed = static_cast<unsigned>((n % 4 ^ lane.g % 4) * 32 + n / 4 * 128);
        *static_cast<Pair*>(shared_pointer(to + mixed + static_cast<unsigned>(half * 8 * kPieceRowBytes))) = {
            of[2 * half], of[2 * half + 1]};
      }
  }
  __device__ void write(int piece) {
    const int count = columns(piece);
    float base[4] = {};
    if (!kMatrix && s_.every_row) load_row(base, piece);
#pragma unroll(kWhole ? kRows : 1)
    for (int i = 0; i < kRows; ++i) {
      const int mixed = chunk() ^ 2 * first_row() ^ 4 * (i % 2);
      const auto sums = *static_cast<const Four<float>*>(shared_pointer(
          own_ + static_cast<unsigned>((first_row() + i * kTogether) * kPieceRowBytes + mixed * 16)));
      if constexpr (kMatrix) {
        const Four<Y> added = kWhole ? ahead_[i] : load(i, piece);
        for (int j = 0; j < 4; ++j) base[j] = element(added, j);
        if (kWhole && piece + 1 < kTileColumns / kPieceColumns) ahead_[i] = load(i, piece + 1);
      }
      float v[4];
      for (int j = 0; j < 4; ++j) v[j] = s_.alpha * element(sums, j) + base[j];
      if (there(i)) store_four(at(s_.y, i, piece), rounded(Y{}, v), count);
    }
  }

  const OnePass& s_;
  unsigned own_;
  int row_, column_;  // the lane's first row and column
  Four<Y> ahead_[kRows];
};

template <class T, class Y, bool kWhole, bool kMatrix, class Sums>
__device__ void put(const OnePass& s, unsigned own, int row, int column, Sums end) {
  Writer<T, Y, kWhole, kMatrix> writer(s, own, row, column);
  writer.put(end());
}
template <class T, class Y, class Sums>
__device__ void put(const OnePass& s, unsigned own, int row, int column, bool whole, Sums end) {
  if (s.c.data && !s.every_row)
    whole ? put<T, Y, true, true>(s, own, row, column, end)
          : put<T, Y, false, true>(s, own, row, column, end);
  else
    whole ? put<T, Y, true, false>(s, own, row, column, end)
          : put<T, Y, false, false>(s, own, row, column, end);
}

// Begins to load the matrix that is added to a warp's rows of a tile into the L2.
__device__ inline void prefetch_added(const OnePass& s, int row, int column) {
  const int size = s.c.type == DType::f32 ? 4 : 2, of_line = 128 / size, lines = kTileColumns / of_line;
  for (int i = static_cast<int>(threadIdx.x % 32); i < 16 * lines; i += 32) {
    const i64 r = row + i / lines, at = column + i % lines * of_line;
    if (r < s.c.rows && at < s.c.cols)
      prefetch_line(static_cast<const unsigned char*>(s.c.data) + (r * s.c.stride + at) * size);
  }
}

template <class T, bool a_down, bool b_down>
__device__ void consume(const OnePass& s, const Room& room) {
  const int warp = this_warp() - 4;
  const unsigned own = room.begin + kPieces + static_cast<unsigned>(warp) * kPieceBytes;
  Reader<T, a_down, b_down> reader(room, static_cast<unsigned>(warp / 4));
  each_tile(s.y, [&](const Corner& corner) {
    const int row = corner.row + warp * 16;
    if (s.c.data && !s.every_row) prefetch_added(s, row, corner.column);
    float d[kTileColumns / 8][4];
    reader.begin_sum(d, s);
    const auto end = [&]() -> const auto& {
      reader.end(d);
      return d;
    };
    const bool whole = corner.row + kTileRows <= s.y.rows && corner.column + kTileColumns <= s.y.cols;
    if (s.y.type == DType::f32)
      put<T, float>(s, own, row, corner.column, whole, end);
    else
      put<T, T>(s, own, row, corner.column, whole, end);
  });
}

template <class T, bool a_down, bool b_down>
__global__ void __launch_bounds__(kThreadsOfAll, 1) multiply_all(const __grid_constant__ OnePass s) {
  const Room room{shared_panels()};
  if (threadIdx.x == 0) {
    for (unsigned stage = 0; stage < kStages; ++stage) {
      make_barrier(room.full(stage), 1);
      make_barrier(room.read(stage), kCluster * kConsumerWarps);
    }
    show_barriers();
    for (int t = 0; t < s.count; ++t) {
      prefetch_map(s.terms[t].a);
      prefetch_map(s.terms[t].b);
    }
  }
  meet_cluster();
  if (this_warp() < 4) {
    give_up_registers<kFetchersRegisters>();
    if (threadIdx.x == 0) fetch<a_down, b_down>(s, room);
    __syncwarp();
  } else {
    take_registers<kConsumersRegisters>();
    consume<T, a_down, b_down>(s, room);
  }
  meet_cluster();  // neither block ends while the other sends to it
}

template <class T>
auto kernel_of(bool a_down, bool b_down) {
  return a_down   ? multiply_all<T, true, true>
         : b_down ? multiply_all<T, false, true>
                  : multiply_all<T, false, false>;
}

}  // namespace

int one_pass_blocks() {
  const auto kernel = kernel_of<bf16>(false, false);
  constexpr const char* kWhat = "looking for room for products";
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(kShared)),
        kWhat);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = kCluster;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kCluster);
  config.blockDim = dim3(kThreadsOfAll);
  config.dynamicSmemBytes = kShared;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int clusters = 0;
  check(cudaOccupancyMaxActiveClusters(&clusters, kernel, &config), kWhat);
  return kCluster * clusters;
}

void one_pass(cudaStream_t stream, const OnePass& s, DType operands, bool a_down, bool b_down, int blocks) {
  const dim3 grid(at_most(kCluster * Pairs(s.y).count(), blocks));
  launch("products", {stream, grid, kThreadsOfAll, kShared, kCluster},
         operands == DType::bf16 ? kernel_of<bf16>(a_down, b_down) : kernel_of<f16>(a_down, b_down), s);
}

}  // namespace ft::cuda
