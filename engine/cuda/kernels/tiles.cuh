// Tiles of two-byte elements in shared memory: their layout, copies to and from them, and a warp's reads of
// them as fragments (mma.cuh).
#pragma once
#include "engine/cuda/kernels/device.cuh"

namespace ft::cuda {

// Layout of a tile: rows follow each other without gaps, in chunks of 16 bytes. Chunk c of row r is at place
// c ^ (r % 8 >> kShift) of its row. This puts the same chunk of eight rows, which load_matrices reads at a
// time, into eight different groups of four banks, and also eight chunks of a row, which copies write at a
// time. A row of an odd multiple of 2^e chunks begins e bits further in the banks: kShift = 3 - e.
template <int kColumns>
struct Layout {
  static constexpr int kChunks = kColumns / kPack, kRowBytes = 2 * kColumns;
  static constexpr int kShift = kChunks % 8 == 0 ? 0 : kChunks % 4 == 0 ? 1 : kChunks % 2 == 0 ? 2 : 3;
  static constexpr int kMixed = (8 >> kShift) - 1;  // the bits of a chunk's number that change
  __device__ static int mix(int row) { return row % 8 >> kShift; }
  __device__ static unsigned offset(int row, int chunk) {
    return static_cast<unsigned>(row * kRowBytes + (chunk ^ mix(row)) * 16);
  }
};
template <int kRows, int kColumns>
constexpr unsigned kTileBytes = kRows* Layout<kColumns>::kRowBytes;

// A head of a tensor.
template <class T>
struct Head {
  const T* data;
  i64 stride;
  int width;  // columns
  bool wide;  // 16-byte accesses can reach the rows
  __device__ Head(Rows<T> x, i64 head, int columns, bool all_wide)
      : data(x.data + head * columns), stride(x.stride), width(columns), wide(all_wide) {}
  __device__ Head from_column(int column) const {
    Head part = *this;
    part.data += column;
    part.width -= column;
    return part;
  }
};

template <class T>
struct alignas(16) Eight {
  T of[kPack];
};

// Begins to copy rows [first, first + kRows) of a head, with zeros from row `last` on and beyond its width;
// all kThreads threads of the block take part. A thread copies the same chunk (of 256 columns, two chunks) of
// every kStep-th row. kStep is a multiple of 8, so that its places in the tile are equally far apart. If the
// source is not aligned, the copy is complete when this returns.
template <int kRows, int kColumns, int kThreads, class T>
__device__ void fetch(unsigned tile, const Head<T>& h, int first, int last) {
  using L = Layout<kColumns>;
  // threads of a row; rows at a time
  constexpr int kOfRow = L::kChunks <= 8 ? 8 : 16, kStep = kThreads / kOfRow;
  static_assert(kStep % 8 == 0 && kRows % kStep == 0);
  const int row = static_cast<int>(threadIdx.x) / kOfRow;
#pragma unroll
  for (int chunk = static_cast<int>(threadIdx.x) % kOfRow; chunk < L::kChunks; chunk += kOfRow) {
    const unsigned to = tile + L::offset(row, chunk);
    const int left = chunk * kPack < h.width ? last - first - row : 0;
    const T* from = h.data + (first + row) * h.stride + chunk * kPack;
    if (h.wide) {
#pragma unroll
      for (int r = 0; r < kRows; r += kStep, from += kStep * h.stride)
        copy_16(to + static_cast<unsigned>(r * L::kRowBytes), from, r < left);
      continue;
    }
#pragma unroll 1
    for (int r = 0; r < kRows; r += kStep, from += kStep * h.stride) {
      Eight<T> v{};
      for (int j = 0; j < kPack; ++j)
        if (r < left && chunk * kPack + j < h.width) v.of[j] = from[j];
      *static_cast<Eight<T>*>(shared_pointer(to + static_cast<unsigned>(r * L::kRowBytes))) = v;
    }
  }
}

// Addresses that a lane gives to load_matrices for a tile's first 16 rows, two chunks at a time. across: the
// four matrices are rows 0..7 of both chunks, then rows 8..15. down: both halves of the first chunk, then of
// the second. A left operand is read down. A right operand is read across if its rows are the product's
// columns, and down and transposed if its columns are.
template <int kColumns>
struct Places {
  using L = Layout<kColumns>;
  unsigned row;  // bytes
  int mixed;     // the chunk, 0 or 1, mixed with the row
  __device__ Places(int r, int chunk)
      : row(static_cast<unsigned>(r * L::kRowBytes)), mixed(chunk ^ L::mix(r)) {}
  static __device__ Places down() { return {lane() % 16, lane() / 16}; }
  static __device__ Places across() { return {lane() % 8 + lane() / 16 * 8, lane() / 8 % 2}; }
  // Offset of chunks 2 pair and 2 pair + 1.
  __device__ unsigned operator[](int pair) const {
    return row + static_cast<unsigned>((2 * pair & ~L::kMixed) * 16 + ((2 * pair & L::kMixed) ^ mixed) * 16);
  }

 private:
  static __device__ int lane() { return static_cast<int>(threadIdx.x % 32); }
};

// Makes a number that is the same in all lanes known to the compiler as such: it then takes none of the
// lanes' registers.
__device__ inline int uniform(int v) { return __shfl_sync(~0u, v, 0); }
__device__ inline int this_warp() { return uniform(static_cast<int>(threadIdx.x / 32)); }

// Position of a lane's part of a fragment: see mma.cuh.
struct Lane {
  int g, t;
  __device__ Lane() : g(static_cast<int>(threadIdx.x % 32) / 4), t(static_cast<int>(threadIdx.x % 4)) {}
};

// A left operand of 16 kM rows that stays in registers.
template <int kM, int kColumns>
struct Held {
  unsigned of[kM][kColumns / 16][4];
  __device__ Held(unsigned rows, const Places<kColumns>& down) {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int k = 0; k < kColumns / 16; ++k)
        load_matrices(of[m][k], rows + down[k] + m * kTileBytes<16, kColumns>);
  }
  __device__ void operator()(unsigned (&a)[kM][4], int k) const {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) a[m][i] = of[m][k][i];
  }
};
// A left operand of 16 kM rows that is read from its tile each time.
template <int kM, int kColumns>
struct InPlace {
  unsigned rows;
  Places<kColumns> down;
  __device__ void operator()(unsigned (&a)[kM][4], int k) const {
#pragma unroll
    for (int m = 0; m < kM; ++m) load_matrices(a[m], rows + down[k] + m * kTileBytes<16, kColumns>);
  }
};

// d (16 kM, 8 kN) += left (16 kM, kColumns) times the rows of `right`, transposed.
template <class T, int kM, int kN, int kColumns, class Left>
__device__ void multiply(float (&d)[kM][kN][4], const Left& left, unsigned right,
                         const Places<kColumns>& across) {
#pragma unroll
  for (int k = 0; k < kColumns / 16; ++k) {
    unsigned a[kM][4];
    left(a, k);
#pragma unroll
    for (int n = 0; n < kN / 2; ++n) {
      unsigned b[4];
      load_matrices(b, right + across[k] + n * kTileBytes<16, kColumns>);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        mma(T{}, d[m][2 * n], a[m], b[0], b[1]);
        mma(T{}, d[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// d (16 kM, kColumns) += p (16 kM, 8 kN), a result of multiply, rounded to T, times the rows of `right`.
template <class T, int kM, int kN, int kColumns>
__device__ void add_product(float (&d)[kM][kColumns / 8][4], const float (&p)[kM][kN][4], unsigned right,
                            const Places<kColumns>& down) {
#pragma unroll
  for (int k = 0; k < kN / 2; ++k) {
    unsigned a[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        a[m][i] = pair_of(T{}, p[m][2 * k + i / 2][2 * (i % 2)], p[m][2 * k + i / 2][2 * (i % 2) + 1]);
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      unsigned b[4];
      load_matrices_transposed(b, right + down[n] + k * kTileBytes<16, kColumns>);
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        mma(T{}, d[m][2 * n], a[m], b[0], b[1]);
        mma(T{}, d[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Writes a warp's rows [row, row + 16 kM) of a head, up to `last`, through rows of a tile that no other warp
// uses, so that complete chunks are written to memory.
template <int kM, int kColumns, class T>
__device__ void put(const Head<T>& y, int row, int last, unsigned own,
                    const float (&d)[kM][kColumns / 8][4]) {
  using L = Layout<kColumns>;
  const Lane lane;
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int n = 0; n < kColumns / 8; ++n) {
        const unsigned at =
            own + L::offset(16 * m + 8 * half + lane.g, n) + static_cast<unsigned>(4 * lane.t);
        *static_cast<unsigned*>(shared_pointer(at)) = pair_of(T{}, d[m][n][2 * half], d[m][n][2 * half + 1]);
      }
  __syncwarp();
#pragma unroll 1
  for (int e = static_cast<int>(threadIdx.x % 32); e < 16 * kM * L::kChunks; e += 32) {
    const int r = e / L::kChunks, column = e % L::kChunks * kPack;
    if (row + r >= last || column >= y.width) continue;
    const Eight<T>& v = *static_cast<const Eight<T>*>(shared_pointer(own + L::offset(r, column / kPack)));
    T* to = const_cast<T*>(y.data) + (row + r) * y.stride + column;
    if (y.wide)
      *reinterpret_cast<Eight<T>*>(to) = v;
    else
#pragma unroll 1
      for (int j = 0; j < kPack && column + j < y.width; ++j) to[j] = v.of[j];
  }
}

// Slots of shared memory that tiles use in turns. The slot that was used last is refilled while the others
// are in use or being filled.
template <int kSlots, unsigned kBytes>
class Ring {
 public:
  static constexpr std::size_t kBytesOfAll = kSlots * kBytes;
  __device__ explicit Ring(unsigned slots) : slots_(slots) {}
  __device__ unsigned slot(int n) const { return slots_ + static_cast<unsigned>(n % kSlots) * kBytes; }
  __device__ unsigned current() const { return slots_ + at_; }
  __device__ unsigned last() const { return slots_ + (at_ == 0 ? (kSlots - 1) * kBytes : at_ - kBytes); }
  __device__ void advance() { at_ = at_ == (kSlots - 1) * kBytes ? 0 : at_ + kBytes; }

 private:
  unsigned slots_, at_ = 0;
};

}  // namespace ft::cuda
