// The instructions of engine/cuda/kernels/mma.cuh, as NVIDIA's PTX ISA documents them.
#include "tests/cuda_on_cpu/warp.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "engine/core/dtype.h"

namespace cuda_on_cpu {
namespace {

struct Copy {
  unsigned to;
  const void* from;
  unsigned bytes;
  bool there;
  int group;
};
struct Copies {
  std::vector<Copy> under_way;
  int groups = 0;              // committed
  std::vector<unsigned> wide;  // destinations of copies of 16 bytes
};

// A thread's operands of a product, which the other lanes read after they have met. There are two, so that
// one is overwritten only after all lanes have met again.
struct Fragments {
  float a[8], b[4];
};
struct Operands {
  Fragments of[2];
  unsigned turn = 0;
};

struct State {  // of all threads, and of the launch
  std::vector<Copies> copies;
  std::vector<Operands> operands;
  SharedTraffic traffic{};
};
State the_state;
State& state() { return the_state; }

void land(const Copy& c) {
  unsigned char* to = ft::cuda::block_memory + c.to;
  if (c.there)
    std::memcpy(to, c.from, c.bytes);
  else
    std::memset(to, 0, c.bytes);
  landed(c.to);
}

// Counts an access of up to eight lanes with 16 bytes each. It takes one turn if the lanes touch eight
// different groups of four banks.
void count(const unsigned* addresses, std::size_t n) {
  if (n == 0) return;
  std::array<std::vector<unsigned>, 8> groups;
  std::size_t turns = 1;
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<unsigned>& g = groups[addresses[i] / 16 % 8];
    if (std::find(g.begin(), g.end(), addresses[i]) == g.end()) g.push_back(addresses[i]);
    turns = std::max(turns, g.size());
  }
  ++state().traffic.accesses;
  state().traffic.conflicts += static_cast<std::int64_t>(turns) - 1;
}

}  // namespace

SharedTraffic shared_traffic() { return state().traffic; }
void reset_shared_traffic() { state().traffic = {}; }

void begin_block(std::size_t threads) {
  State& s = state();
  s.copies.resize(threads);
  s.operands.resize(threads);
  begin_products(threads);
  for (Copies& c : s.copies) {
    c.under_way.clear();
    c.wide.clear();
    c.groups = 0;
  }
}

// Counts the accesses of 16-byte copies: the n-th copies of eight neighbouring lanes are one access.
void count_copies() {
  const std::vector<Copies>& all = state().copies;
  for (std::size_t first = 0; first < all.size(); first += 8)
    for (std::size_t n = 0;; ++n) {
      unsigned addresses[8];
      std::size_t active = 0;
      for (std::size_t i = first; i < first + 8; ++i)
        if (n < all[i].wide.size()) addresses[active++] = all[i].wide[n];
      if (active == 0) break;
      count(addresses, active);
    }
}

void copy(unsigned to, const void* from, unsigned bytes, bool there) {
  if (std::size_t{to} + bytes > shared_bytes()) give_up("a copy to beyond the block's shared memory");
  if (to % bytes != 0 || (there && reinterpret_cast<std::uintptr_t>(from) % bytes != 0))
    give_up("a copy from or to an address that is no multiple of its size");
  Copies& mine = state().copies[thread()];
  if (bytes == 16) mine.wide.push_back(to);
  const Copy c{to, from, bytes, there, mine.groups};
  if (order() == Order::backward)
    land(c);
  else
    mine.under_way.push_back(c);
}
void commit_copies() { ++state().copies[thread()].groups; }
void wait_for_copies(int under_way) {
  Copies& mine = state().copies[thread()];
  const auto done = [&](const Copy& c) { return c.group < mine.groups - under_way; };
  for (const Copy& c : mine.under_way)
    if (done(c)) land(c);
  std::erase_if(mine.under_way, done);
}

void load_matrices(unsigned (&m)[4], unsigned row, bool transposed) {
  if (row % 16 != 0) give_up("a row of a matrix is not at a multiple of 16 bytes");
  if (std::size_t{row} + 16 > shared_bytes()) give_up("a matrix beyond the block's shared memory");
  std::uint64_t all[32];
  exchange_all(Meeting::matrices, ~0u, row, all);
  const auto element = [&](std::size_t matrix, std::size_t r, std::size_t c) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, ft::cuda::block_memory + all[8 * matrix + r] + 2 * c, sizeof bits);
    return unsigned{bits};
  };
  const auto g = static_cast<std::size_t>(lane() / 4), t = static_cast<std::size_t>(lane() % 4);
  for (std::size_t i = 0; i < 4; ++i)
    m[i] = transposed ? element(i, 2 * t, g) | element(i, 2 * t + 1, g) << 16
                      : element(i, g, 2 * t) | element(i, g, 2 * t + 1) << 16;
  if (lane() == 0)
    for (std::size_t i = 0; i < 4; ++i) {
      unsigned addresses[8];
      for (std::size_t r = 0; r < 8; ++r) addresses[r] = static_cast<unsigned>(all[8 * i + r]);
      count(addresses, 8);
    }
}

template <class T>
void mma(T, float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  Operands& operands = state().operands[thread()];
  Fragments& mine = operands.of[operands.turn++ % 2];
  const auto half = [](unsigned word, int which) {
    return ft::to_float(T{static_cast<std::uint16_t>(which ? word >> 16 : word & 0xffffu)});
  };
  for (int i = 0; i < 8; ++i) mine.a[i] = half(a[i / 2], i % 2);
  for (int i = 0; i < 4; ++i) mine.b[i] = half(i / 2 ? b1 : b0, i % 2);
  std::uint64_t all[32];
  exchange_all(Meeting::product, ~0u, reinterpret_cast<std::uint64_t>(&mine), all);
  // Element k of a row or column belongs to lane k % 8 / 2 of its four lanes, in pair k / 8 of that lane.
  const auto of = [&](int four, int k) {
    return reinterpret_cast<const Fragments*>(all[4 * four + k % 8 / 2]);
  };
  const int g = lane() / 4, t = lane() % 4;
  float rows[2][16], columns[2][16];  // rows g, g + 8 of a; columns 2 t, 2 t + 1 of b
  for (int k = 0; k < 16; ++k)
    for (int i = 0; i < 2; ++i) {
      rows[i][k] = of(g, k)->a[2 * (i + k / 8 * 2) + k % 2];
      columns[i][k] = of(2 * t + i, k)->b[k / 8 * 2 + k % 2];
    }
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 16; ++k) d[i] += rows[i / 2][k] * columns[i % 2][k];
}

// The operands lose their lower 13 bits. Element k of a row or column belongs to lane k % 4 of its four
// lanes, as that lane's number k / 4 of the row or column.
void mma_tf32(float (&d)[4], const float (&a)[4], float b0, float b1) {
  Operands& operands = state().operands[thread()];
  Fragments& mine = operands.of[operands.turn++ % 2];
  const auto cut = [](float x) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & ~0x1fffu); };
  for (int i = 0; i < 4; ++i) mine.a[i] = cut(a[i]);
  mine.b[0] = cut(b0);
  mine.b[1] = cut(b1);
  std::uint64_t all[32];
  exchange_all(Meeting::product, ~0u, reinterpret_cast<std::uint64_t>(&mine), all);
  const auto of = [&](int four, int k) { return reinterpret_cast<const Fragments*>(all[4 * four + k % 4]); };
  const int g = lane() / 4, t = lane() % 4;
  for (int i = 0; i < 4; ++i)
    for (int k = 0; k < 8; ++k) d[i] += of(g, k)->a[i / 2 + k / 4 * 2] * of(2 * t + i % 2, k)->b[k / 4];
}
// Rounds to the nearest number of 19 bits; ties go away from zero.
float to_tf32(float x) {
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000u) & ~0x1fffu);
}
template <class T>
unsigned pair_of(T, float low, float high) {
  T pair[2];
  ft::from_float(pair[0], low);
  ft::from_float(pair[1], high);
  return pair[0].bits | static_cast<unsigned>(pair[1].bits) << 16;
}
template void mma(ft::bf16, float (&)[4], const unsigned (&)[4], unsigned, unsigned);
template void mma(ft::f16, float (&)[4], const unsigned (&)[4], unsigned, unsigned);
template unsigned pair_of(ft::bf16, float, float);
template unsigned pair_of(ft::f16, float, float);

}  // namespace cuda_on_cpu
