// The instructions of engine/cuda/kernels/wgmma.cuh, as NVIDIA's PTX ISA documents them.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "engine/core/dtype.h"
#include "tests/cuda_on_cpu/warp.h"

namespace cuda_on_cpu {
namespace {

constexpr int kDepth = 16;
using Row = std::array<float, kDepth>;

// A matrix in shared memory: its address and strides in bytes, decoded from a descriptor.
struct Matrix {
  unsigned at, panels, eights;
  explicit Matrix(std::uint64_t d) : at(bytes(d)), panels(bytes(d >> 16)), eights(bytes(d >> 32)) {
    if (d >> 62 != 1) give_up("a product's operand is not swizzled by 128 bytes");
  }
  static unsigned bytes(std::uint64_t sixteens) { return static_cast<unsigned>(sixteens & 0x3fff) << 4; }
  // Returns the address of element k of a row; 64 elements take 128 bytes. With `down`, of element k of a
  // column: the matrix is stored by columns.
  unsigned place(int row, int k, bool down) const {
    const auto r = static_cast<unsigned>(row), c = static_cast<unsigned>(k);
    const unsigned linear = down ? at + r / 64 * panels + r % 64 * 2 + c / 8 * eights + c % 8 * 128
                                 : at + r / 8 * eights + r % 8 * 128 + c * 2;
    return linear ^ (linear >> 3 & 0x70);
  }
};

struct Product {
  float (*d)[4];
  int n;  // columns / 8
  bool in_registers, a_down, down, add;
  std::array<Row, 2> rows;  // of this lane's fragment
  std::uint64_t a, b;
  int group;
  int warp;
  float (*element)(std::uint16_t);
};

struct Thread {
  std::vector<Product> under_way;
  int groups = 0;                        // committed
  std::vector<std::size_t> unseen = {};  // chunks that its copies have written since the last fence
};
struct State {
  std::vector<Thread> threads;
  std::vector<bool> unseen;  // by chunk of shared memory, block by block
};
State the_state;

template <class T>
float element(std::uint16_t bits) {
  return ft::to_float(T{bits});
}

std::size_t chunk_of(unsigned at) {
  return static_cast<std::size_t>(cluster_rank()) * (shared_bytes() / 16 + 1) + at / 16;
}

float read(const Product& p, unsigned at) {
  if (std::size_t{at} + 2 > shared_bytes()) give_up("a product's operand beyond the block's shared memory");
  if (the_state.unseen[chunk_of(at)]) give_up("a product reads copies that no fence has shown it");
  std::uint16_t bits = 0;
  std::memcpy(&bits, ft::cuda::block_memory + at, sizeof bits);
  return p.element(bits);
}

void compute(const Product& p) {
  const int g = lane() / 4, t = lane() % 4;
  std::array<Row, 2> rows = p.rows;
  if (!p.in_registers)
    for (int half = 0; half < 2; ++half)
      for (int k = 0; k < kDepth; ++k)
        rows[static_cast<std::size_t>(half)][static_cast<std::size_t>(k)] =
            read(p, Matrix(p.a).place(16 * p.warp + g + 8 * half, k, p.a_down));
  const Matrix b(p.b);
  for (int n = 0; n < p.n; ++n)
    for (int j = 0; j < 2; ++j) {
      float sums[2] = {p.add ? p.d[n][j] : 0, p.add ? p.d[n][2 + j] : 0};
      for (int k = 0; k < kDepth; ++k) {
        const float v = read(p, b.place(8 * n + 2 * t + j, k, p.down));
        for (std::size_t half = 0; half < 2; ++half)
          sums[half] += rows[half][static_cast<std::size_t>(k)] * v;
      }
      p.d[n][j] = sums[0];
      p.d[n][2 + j] = sums[1];
    }
}

void begin(Product p) {
  Thread& mine = the_state.threads[thread()];
  p.group = mine.groups;
  p.warp = static_cast<int>(thread() / 32 % 4);
  if (order() == Order::backward)
    compute(p);
  else
    mine.under_way.push_back(p);
}

}  // namespace

void begin_products(std::size_t threads) {
  the_state.threads.assign(threads, {});
  the_state.unseen.assign(static_cast<std::size_t>(cluster_size()) * (shared_bytes() / 16 + 1), false);
}
void landed(unsigned at) {
  the_state.threads[thread()].unseen.push_back(chunk_of(at));
  the_state.unseen[chunk_of(at)] = true;
}
void show_copies_to_products() {
  for (const std::size_t chunk : std::exchange(the_state.threads[thread()].unseen, {}))
    the_state.unseen[chunk] = false;
}

// Lane 4 g + t holds columns 2t, 2t + 1 and 2t + 8, 2t + 9 of rows g and g + 8 of a, as in mma.
template <class T>
void multiply_group(T, float (*d)[4], int n, const unsigned (&a)[4], std::uint64_t b, bool b_down, bool add) {
  Product p{d, n, true, false, b_down, add, {}, 0, b, 0, 0, element<T>};
  std::uint64_t words[2][32];  // the first and the last two words of each lane
  exchange_all(Meeting::product, ~0u, a[0] | std::uint64_t{a[1]} << 32, words[0]);
  exchange_all(Meeting::product, ~0u, a[2] | std::uint64_t{a[3]} << 32, words[1]);
  for (std::size_t half = 0; half < 2; ++half)
    for (std::size_t k = 0; k < kDepth; ++k) {
      const std::uint64_t pair = words[k / 8][static_cast<std::size_t>(lane()) / 4 * 4 + k % 8 / 2];
      p.rows[half][k] = element<T>(static_cast<std::uint16_t>(pair >> (32 * half + 16 * (k % 2))));
    }
  begin(p);
}
template <class T>
void multiply_group(T, float (*d)[4], int n, std::uint64_t a, std::uint64_t b, bool a_down, bool b_down,
                    bool add) {
  exchange(Meeting::product, ~0u, 0, 0);
  begin({d, n, false, a_down, b_down, add, {}, a, b, 0, 0, element<T>});
}
template void multiply_group(ft::bf16, float (*)[4], int, const unsigned (&)[4], std::uint64_t, bool, bool);
template void multiply_group(ft::f16, float (*)[4], int, const unsigned (&)[4], std::uint64_t, bool, bool);
template void multiply_group(ft::bf16, float (*)[4], int, std::uint64_t, std::uint64_t, bool, bool, bool);
template void multiply_group(ft::f16, float (*)[4], int, std::uint64_t, std::uint64_t, bool, bool, bool);

void commit_products() { ++the_state.threads[thread()].groups; }
void wait_for_products(int under_way) {
  Thread& mine = the_state.threads[thread()];
  const auto done = [&](const Product& p) { return p.group < mine.groups - under_way; };
  // A fault leaves the fiber, so erase only after all products are computed.
  for (const Product& p : mine.under_way)
    if (done(p)) compute(p);
  std::erase_if(mine.under_way, done);
  exchange(Meeting::product, ~0u, 0, 0);  // all lanes of a warp wait together
}

}  // namespace cuda_on_cpu
