// The instructions of engine/cuda/kernels/tma.cuh, as NVIDIA's PTX ISA documents them, and the driver's
// descriptors of matrices.
#include <cstring>
#include <deque>
#include <map>

#include "tests/cuda_on_cpu/cuda.h"
#include "tests/cuda_on_cpu/memory.h"
#include "tests/cuda_on_cpu/warp.h"

namespace cuda_on_cpu {
namespace {

constexpr unsigned kBarrierBytes = 8, kPanelAlign = 1024, kRowBytes = 128, kChunk = 16;

struct Barrier {
  int arrivals, missing;  // `missing`: arrivals that the current phase still lacks
  std::int64_t bytes;     // announced and not yet received
  unsigned phase;
  bool shown;
  std::uint64_t content;  // value of its memory, which no other code may write
};

// The content of a CUtensorMap.
struct Matrix {
  std::uint64_t address, columns, rows, stride, box_rows, valid;
};
static_assert(sizeof(Matrix) <= sizeof(CUtensorMap));
constexpr std::uint64_t kValid = 0x6d61707065642121;

struct Box {
  Matrix matrix;
  int row, column;
  unsigned to, barrier;
  int rank;  // rank in the cluster of the block that receives it
};

using Place = std::pair<int, unsigned>;  // a block's rank in its cluster, and an address
struct State {
  std::map<Place, Barrier> barriers;
  std::deque<Box> boxes;  // requested and not yet received
};
State the_state;

std::uint64_t content_of(Place at) {
  std::uint64_t content = 0;
  std::memcpy(&content, shared_of(at.first) + at.second, sizeof content);
  return content;
}
// Returns the barrier at `at`, or null and in `wrong` the reason why there is none.
Barrier* find(Place at, const char*& wrong) {
  const auto found = the_state.barriers.find(at);
  wrong = found == the_state.barriers.end()         ? "a barrier that has not been made"
          : !found->second.shown                    ? "a barrier that has not been shown"
          : found->second.content != content_of(at) ? "a barrier's memory has been written"
                                                    : nullptr;
  return wrong ? nullptr : &found->second;
}
void end_phase(Barrier& b) {
  if (b.missing > 0 || b.bytes != 0) return;
  b.missing = b.arrivals;
  ++b.phase;
}
Barrier& barrier_at(Place at) {
  const char* wrong = nullptr;
  Barrier* b = has_ended(at.first) ? nullptr : find(at, wrong);
  if (!b) give_up(wrong ? wrong : "a barrier of a block that has ended");
  return *b;
}
void arrive_at_place(Place at, unsigned bytes) {
  Barrier& b = barrier_at(at);
  if (--b.missing < 0) give_up("more have arrived at a barrier than it was made for");
  b.bytes += bytes;
  end_phase(b);
  if (order() == Order::shuffled && at_random()) let_others_go();
}
bool over(int rank, unsigned barrier, unsigned parity) {
  return the_state.barriers.at({rank, barrier}).phase % 2 != parity;
}

void land(const Box& box) {
  const Matrix& m = box.matrix;
  for (unsigned r = 0; r < m.box_rows; ++r)
    for (unsigned c = 0; c < kRowBytes / 2; ++c) {
      const std::int64_t row = box.row + std::int64_t{r}, column = box.column + std::int64_t{c};
      std::uint16_t element = 0;
      if (row >= 0 && column >= 0 && row < static_cast<std::int64_t>(m.rows) &&
          column < static_cast<std::int64_t>(m.columns))
        std::memcpy(&element,
                    reinterpret_cast<const std::byte*>(m.address) +
                        row * static_cast<std::int64_t>(m.stride) + 2 * column,
                    sizeof element);
      const unsigned linear = box.to + r * kRowBytes + 2 * c;
      std::memcpy(shared_of(box.rank) + (linear ^ (linear >> 3 & 0x70)), &element, sizeof element);
    }
  Barrier& b = the_state.barriers.at({box.rank, box.barrier});
  b.bytes -= static_cast<std::int64_t>(m.box_rows) * kRowBytes;
  end_phase(b);
}

}  // namespace

void begin_barriers() { the_state = {}; }
bool boxes_on_their_way() { return !the_state.boxes.empty(); }
bool land_box() {
  if (the_state.boxes.empty() || has_ended(the_state.boxes.front().rank)) return false;
  land(the_state.boxes.front());
  the_state.boxes.pop_front();
  return true;
}

void make_barrier(unsigned barrier, int arrivals) {
  if (barrier % kBarrierBytes != 0 || std::size_t{barrier} + kBarrierBytes > shared_bytes())
    give_up("a barrier beyond the block's shared memory, or at an odd address");
  if (arrivals < 1) give_up("a barrier for nobody");
  const std::uint64_t content = 0x6261727269657200 + barrier;
  std::memcpy(ft::cuda::block_memory + barrier, &content, sizeof content);
  the_state.barriers[{cluster_rank(), barrier}] = {arrivals, arrivals, 0, 0, false, content};
}
void show_barriers() {
  for (auto& [at, b] : the_state.barriers) b.shown |= at.first == cluster_rank();
}
void announce(unsigned barrier, unsigned bytes) { arrive_at_place({cluster_rank(), barrier}, bytes); }
void arrive_in(int rank, unsigned barrier) { arrive_at_place({rank, barrier}, 0); }
void wait_for_phase(unsigned barrier, unsigned parity) {
  barrier_at({cluster_rank(), barrier});
  if (parity > 1) give_up("a phase's parity is 0 or 1");
  wait_until(over, barrier, parity);
}

void fetch_box(unsigned to, const std::uint64_t* map, int row, int column, unsigned barrier, bool for_all) {
  Box box{{}, row, column, to, barrier, cluster_rank()};
  std::memcpy(&box.matrix, map, sizeof box.matrix);
  const Matrix& m = box.matrix;
  if (m.valid != kValid) give_up("a box of a map that the driver has not made");
  if (to % kPanelAlign != 0) give_up("a box to an address that is no multiple of 1024 bytes");
  if (std::size_t{to} + m.box_rows * kRowBytes > shared_bytes())
    give_up("a box to beyond the block's shared memory");
  if (!memory().holds(reinterpret_cast<const void*>(m.address), (m.rows - 1) * m.stride + 2 * m.columns))
    give_up("a box of memory that is not there");
  for (int rank = 0; rank < cluster_size(); ++rank) {
    if (!for_all && rank != cluster_rank()) continue;
    box.rank = rank;
    barrier_at({rank, barrier});
    if (order() == Order::backward || (order() == Order::shuffled && at_random()))
      land(box);
    else
      the_state.boxes.push_back(box);
  }
}

namespace {

CUresult encode(CUtensorMap* map, CUtensorMapDataType, cuuint32_t rank, void* address,
                const cuuint64_t* sizes, const cuuint64_t* strides, const cuuint32_t* box,
                const cuuint32_t* element_strides, CUtensorMapInterleave, CUtensorMapSwizzle swizzle,
                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  const auto at = reinterpret_cast<std::uint64_t>(address);
  constexpr std::uint64_t kMostSize = std::uint64_t{1} << 32, kMostStride = std::uint64_t{1} << 40;
  const bool sized = sizes[0] >= 1 && sizes[0] <= kMostSize && sizes[1] >= 1 && sizes[1] <= kMostSize;
  const bool boxed = 2 * box[0] == kRowBytes && box[1] >= 1 && box[1] <= 256;
  const bool plain = element_strides[0] == 1 && element_strides[1] == 1;
  if (rank != 2 || at % kChunk != 0 || strides[0] % kChunk != 0 || strides[0] >= kMostStride || !sized ||
      !boxed || !plain || swizzle != CU_TENSOR_MAP_SWIZZLE_128B)
    return CUDA_ERROR_INVALID_VALUE;
  const Matrix m{at, sizes[0], sizes[1], strides[0], box[1], kValid};
  std::memcpy(map->opaque, &m, sizeof m);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace cuda_on_cpu

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool known = std::strcmp(name, "cuTensorMapEncodeTiled") == 0;
  *function = known ? reinterpret_cast<void*>(&cuda_on_cpu::encode) : nullptr;
  *result = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
