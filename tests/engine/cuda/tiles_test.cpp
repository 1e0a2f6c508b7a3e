// Tiles in shared memory: the stand-ins for the instructions that fill and read them, mistakes that these
// find, and that eight lanes never access the same bank.
#include "engine/cuda/kernels/attention_extras.cuh"

#include "tests/engine/cuda/both.h"
#include "tests/engine/cuda/planted.h"

namespace ft::cuda {
namespace {

using Bytes = Numbers<64>;

__global__ void copies(float* y, const float* x, bool wait, bool there) {
  Bytes& s = shared_memory<Bytes>();
  const unsigned i = threadIdx.x, at = shared_address(&s);
  if (i < 16) copy_16(at + 16 * i, x + 4 * i, there);
  commit_copies();
  if (wait) wait_for_copies<0>();
  __syncthreads();
  y[i] = s.at[i];
}

class Copies : public testing::Test {
 protected:
  Copies() : x(64) {
    for (unsigned i = 0; i < 64; ++i) host.push_back(static_cast<float>(i));
    const Stream s;
    check(cudaMemcpyAsync(x.get(), host.data(), 256, cudaMemcpyHostToDevice, s), "test");
    check(cudaStreamSynchronize(s), "test");
  }
  std::vector<float> host;
  Memory x;
};

TEST_F(Copies, ArriveWhenTheyAreWaitedFor) {
  for (const auto& y : in_each_order<const float*, bool, bool>(copies, x.get(), true, true))
    EXPECT_EQ(y, host);
  for (const auto& y : in_each_order<const float*, bool, bool>(copies, x.get(), true, false))
    EXPECT_EQ(y, std::vector<float>(64, 0.0f));
  const auto wrong = in_each_order<const float*, bool, bool>(copies, x.get(), false, true);
  EXPECT_FALSE(wrong[0] == host || wrong[2] == host);
}

// Makes two copies, one after another, into the same place.
__global__ void copies_in_turns(float* y, const float* x, bool barrier, bool enough) {
  Bytes& s = shared_memory<Bytes>();
  const unsigned i = threadIdx.x, at = shared_address(&s);
  copy_4(at + 4 * i, x + i, true);
  commit_copies();
  wait_for_copies<0>();
  __syncthreads();
  const float first = s.at[63 - i];
  if (barrier) __syncthreads();
  copy_4(at + 4 * i, x + 63 - i, true);
  commit_copies();
  commit_copies();  // an empty group
  enough ? wait_for_copies<1>() : wait_for_copies<2>();
  __syncthreads();
  y[i] = first + 100 * s.at[i];
}

TEST_F(Copies, AMissingBarrierAndAWaitForTooFewGroups) {
  std::vector<float> want;
  for (unsigned i = 0; i < 64; ++i) want.push_back(host[63 - i] + 100 * host[63 - i]);
  for (const auto& y : in_each_order<const float*, bool, bool>(copies_in_turns, x.get(), true, true))
    EXPECT_EQ(y, want);
  const auto no_barrier = in_each_order<const float*, bool, bool>(copies_in_turns, x.get(), false, true);
  EXPECT_NE(no_barrier[1], want);
  const auto too_few = in_each_order<const float*, bool, bool>(copies_in_turns, x.get(), true, false);
  EXPECT_NE(too_few[0], want);
}

__global__ void copies_beyond(float* y) {
  copy_4(shared_address(&shared_memory<Bytes>()) + 4 * threadIdx.x + 4, y, false);
}
__global__ void copies_askew(float* y) { copy_16(shared_address(&shared_memory<Bytes>()), y + 1, true); }
__global__ void reads_a_matrix_askew(float*) {
  unsigned m[4];
  load_matrices(m, shared_address(&shared_memory<Bytes>()) + 8);
}
__global__ void reads_a_matrix_beyond(float*) {
  unsigned m[4];
  load_matrices(m, shared_address(&shared_memory<Bytes>()) + 16 * (threadIdx.x % 32));
}

TEST_F(Copies, WrongAddresses) {
  EXPECT_EQ(fault_of(sizeof(Bytes), 64, copies_beyond),
            "a copy to beyond the block's shared memory (block 0,0,0)");
  EXPECT_EQ(fault_of(sizeof(Bytes), 32, copies_askew),
            "a copy from or to an address that is no multiple of its size (block 0,0,0)");
  EXPECT_EQ(fault_of(sizeof(Bytes), 32, reads_a_matrix_askew),
            "a row of a matrix is not at a multiple of 16 bytes (block 0,0,0)");
  EXPECT_EQ(fault_of(sizeof(Bytes), 32, reads_a_matrix_beyond),
            "a matrix beyond the block's shared memory (block 0,0,0)");
}

struct Halves {
  std::uint16_t at[256];
};
// Four matrices, one after another, in which element n is n. y becomes the words of matrix 2 of each lane, as
// numbers.
__global__ void reads_matrices(float* y, bool transposed) {
  Halves& s = shared_memory<Halves>();
  for (unsigned n = threadIdx.x; n < 256; n += 32) s.at[n] = static_cast<std::uint16_t>(n);
  __syncwarp();
  unsigned m[4];
  const unsigned row = shared_address(&s) + 16 * threadIdx.x;
  transposed ? load_matrices_transposed(m, row) : load_matrices(m, row);
  y[2 * threadIdx.x] = static_cast<float>(m[2] & 0xffff);
  y[2 * threadIdx.x + 1] = static_cast<float>(m[2] >> 16);
}

TEST(Matrices, AreSharedAmongLanes) {
  for (const bool transposed : {false, true}) {
    const Stream stream;
    const Memory y(64);
    launch("test", {stream, dim3(1), 32, sizeof(Halves)}, reads_matrices, y.get(), transposed);
    const std::vector<float> got = y.values(stream);
    for (unsigned i = 0; i < 64; ++i) {
      const unsigned g = i / 8, column = 2 * (i / 2 % 4) + i % 2;
      EXPECT_EQ(got[i], static_cast<float>(128 + (transposed ? 8 * column + g : 8 * g + column)));
    }
  }
}

// Reads a tile of 64 rows completely, in both orientations; `plain`: with addresses of rows that are not
// swizzled.
template <int kColumns>
__global__ void reads_a_tile(float*, bool plain) {
  using L = Layout<kColumns>;
  const unsigned tile = shared_address(&shared_memory<unsigned char>());
  for (const Places<kColumns>& places : {Places<kColumns>::down(), Places<kColumns>::across()})
    for (int k = 0; k < kColumns / 16; ++k)
      for (unsigned r = 0; r < 64; r += 16) {
        unsigned m[4];
        const unsigned at =
            plain ? threadIdx.x % 16 * L::kRowBytes + threadIdx.x / 16 * 16 + 32 * k : places[k];
        load_matrices(m, tile + at + r * L::kRowBytes);
      }
}

template <int kColumns>
void expect_no_conflicts() {
  SCOPED_TRACE(kColumns);
  for (const bool plain : {false, true}) {
    cuda_on_cpu::reset_shared_traffic();
    EXPECT_EQ(fault_of<bool>(kTileBytes<64, kColumns>, 32, reads_a_tile<kColumns>, plain), "nothing");
    const auto [accesses, conflicts] = cuda_on_cpu::shared_traffic();
    EXPECT_EQ(accesses, 2 * 2 * kColumns / 16 * 4 * 4);  // two blocks
    EXPECT_EQ(conflicts > 0, plain);
  }
}

TEST(Matrices, LieInEightGroupsOfBanks) {
  expect_no_conflicts<16>();
  expect_no_conflicts<32>();
  expect_no_conflicts<48>();
  expect_no_conflicts<64>();
  expect_no_conflicts<80>();
  expect_no_conflicts<96>();
  expect_no_conflicts<112>();
  expect_no_conflicts<128>();
  expect_no_conflicts<256>();
}

TEST(Matrices, AttentionMeetsNoConflicts) {
  for (const std::int64_t width : {64, 80, 96, 128}) {
    SCOPED_TRACE(width);
    Trial t{DType::bf16, 150, 2 * width};
    for (std::uint64_t seed = 1; seed < 9; ++seed) t.matrix(seed);  // y, q, k, v, dq, dk, dv, dy
    t.vector(300, DType::f32);
    cuda_on_cpu::reset_shared_traffic();
    t.expect_same(
        [&](Ops& ops, const Tensors& x) {
          const std::vector<std::int32_t> starts{0, 150};
          const Heads heads{2, 2, width};
          const Tensor lse = x[8].view({2, 150});
          ops.run(op::Attention{.y = x[0],
                                .lse = lse,
                                .q = x[1],
                                .k = x[2],
                                .v = x[3],
                                .heads = heads,
                                .mask = {starts},
                                .scores = {.scale = 0.1f}});
          ops.run(op::AttentionGrad{.dq = x[4],
                                    .dk = x[5],
                                    .dv = x[6],
                                    .dy = x[7],
                                    .y = x[0],
                                    .lse = lse,
                                    .q = x[1],
                                    .k = x[2],
                                    .v = x[3],
                                    .heads = heads,
                                    .mask = {starts},
                                    .scores = {.scale = 0.1f}});
        },
        1e-4);
    const auto [accesses, conflicts] = cuda_on_cpu::shared_traffic();
    EXPECT_GT(accesses, 10000);
    EXPECT_EQ(conflicts, 0);
  }
}

}  // namespace
}  // namespace ft::cuda
