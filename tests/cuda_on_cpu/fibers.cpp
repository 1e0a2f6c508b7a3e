#include "tests/cuda_on_cpu/fibers.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "tests/cuda_on_cpu/warp.h"

// void cuda_on_cpu_switch(void** from, void* to): saves the callee-saved registers on the old stack, and
// restores them from the new stack. System V, x86-64.
asm(R"(
.text
.globl cuda_on_cpu_switch
.type cuda_on_cpu_switch, @function
cuda_on_cpu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cuda_on_cpu_switch, .-cuda_on_cpu_switch
)");
extern "C" void cuda_on_cpu_switch(void** from, void* to);

#ifdef __SANITIZE_ADDRESS__
extern "C" void __asan_unpoison_memory_region(void const volatile*, std::size_t);
static void clear_poison(void* p, std::size_t n) { __asan_unpoison_memory_region(p, n); }
#else
static void clear_poison(void*, std::size_t) {}
#endif

namespace ft::cuda {
constexpr std::size_t kGuard = 1024;  // bytes behind the memory that a launch asked for
alignas(1024) unsigned char block_memory[cuda_on_cpu::kMostSharedOf90 + kGuard];
}  // namespace ft::cuda

namespace cuda_on_cpu {
namespace {

constexpr std::size_t kStack = 64 << 10, kMostThreads = 1024;
constexpr unsigned char kPoison = 0xcd, kUntouched = 0xa7;
constexpr unsigned kWholeWarp = ~0u;

enum class State : std::uint8_t { ready, at_block, at_warp, at_named, at_phase, at_cluster, done };

struct Fiber {
  void* stack = nullptr;  // the stack pointer at the last switch
  uint3 index{};
  State state = State::ready;
  Meeting meeting = Meeting::sync;
  unsigned mask = 0;
  std::uint64_t value = 0;
  std::uint64_t met = 0;                            // its value when the full warp last met
  int named = 0;                                    // the barrier at which it waits
  bool (*over)(int, unsigned, unsigned) = nullptr;  // tests if the phase that it waits for is over
  unsigned barrier = 0, parity = 0;
};
struct Named {
  int arrived = 0, threads = 0;
};

// A block of the current cluster.
struct Block {
  uint3 index{};
  int any = 0, any_result = 0;  // for __syncthreads_or
  std::array<Named, 16> named{};
  std::vector<unsigned char> memory = {};  // its shared memory while another block runs
};

// Used only by the one host thread that runs kernels.
struct Machine {
  Order order = Order::forward;
  std::mt19937 random{1};
  std::byte* stacks = nullptr;
  std::vector<Fiber> fibers;
  std::size_t current = 0;
  void* scheduler = nullptr;  // the scheduler's stack pointer while a fiber runs
  const std::function<void()>* body = nullptr;
  std::string fault;
  std::size_t shared = 0, threads = 0;  // of a block: bytes, and fibers
  std::vector<Block> blocks;            // of the current cluster
  std::size_t active = 0;               // the block whose shared memory is in block_memory

  Fiber& now() { return fibers[current]; }
  Block& block() { return blocks[current / threads]; }
  void leave() { cuda_on_cpu_switch(&now().stack, scheduler); }
};
Machine the_machine;
Machine& machine() { return the_machine; }

void fiber_main() {
  Machine& m = machine();
  (*m.body)();
  m.now().state = State::done;
  for (;;) m.leave();
}

std::string place() {
  return " (block " + std::to_string(blockIdx.x) + "," + std::to_string(blockIdx.y) + "," +
         std::to_string(blockIdx.z) + ")";
}

[[noreturn]] void fail(const std::string& what) {
  Machine& m = machine();
  clear_poison(m.stacks, kStack * kMostThreads);
  throw Fault(what + place());
}

void wait_for_warp(Meeting meeting, unsigned mask) {
  Fiber& f = machine().now();
  if (!(mask >> lane() & 1)) give_up("a lane is not in the mask of its own shuffle, vote or __syncwarp");
  f.meeting = meeting;
  f.mask = mask;
  f.state = State::at_warp;
  machine().leave();
}

void prepare(Fiber& f, std::size_t i, dim3 block) {
  Machine& m = machine();
  f = {};
  const auto n = static_cast<unsigned>(i % m.threads);
  f.index = {n % block.x, n / block.x % block.y, n / (block.x * block.y)};
  auto* top = reinterpret_cast<void**>(m.stacks + (i + 1) * kStack);
  *--top = nullptr;  // fiber_main never returns; also aligns the stack as a call would
  *--top = reinterpret_cast<void*>(fiber_main);
  for (int r = 0; r < 6; ++r) *--top = nullptr;
  f.stack = top;
}

// Releases the lanes of the warp of threads [w, w + 32) that have met.
bool release_warp(std::size_t w) {
  Machine& m = machine();
  bool any = false;
  unsigned here = 0;
  for (unsigned l = 0; l < 32; ++l)
    if (m.fibers[w + l].state == State::at_warp) here |= 1u << l;
  for (unsigned l = 0; l < 32; ++l) {
    const Fiber& first = m.fibers[w + l];
    if (!(here >> l & 1) || first.state != State::at_warp || (first.mask & here) != first.mask) continue;
    const unsigned mask = first.mask;
    for (unsigned k = 0; k < 32; ++k) {
      if (!(mask >> k & 1)) continue;
      Fiber& f = m.fibers[w + k];
      if (f.mask != mask || f.meeting != first.meeting)
        fail("the lanes of a warp meet in different calls or with different masks");
      f.state = State::ready;
      if (mask == kWholeWarp) f.met = f.value;
      here &= ~(1u << k);
    }
    any = true;
  }
  return any;
}

bool release_block(std::size_t number) {
  Machine& m = machine();
  const std::span fibers = std::span(m.fibers).subspan(number * m.threads, m.threads);
  std::size_t waiting = 0, done = 0;
  for (const Fiber& f : fibers) {
    waiting += f.state == State::at_block;
    done += f.state == State::done;
  }
  if (waiting == 0 || waiting + done < fibers.size()) return false;
  if (done > 0) fail("__syncthreads is reached by some threads after others have returned");
  m.blocks[number].any_result = std::exchange(m.blocks[number].any, 0);
  for (Fiber& f : fibers) f.state = State::ready;
  return true;
}

bool release_cluster() {
  std::vector<Fiber>& fibers = machine().fibers;
  if (!std::all_of(fibers.begin(), fibers.end(), [](auto& f) { return f.state == State::at_cluster; }))
    return false;
  for (Fiber& f : fibers) f.state = State::ready;
  return true;
}

bool release_phases() {
  bool any = false;
  Machine& m = machine();
  for (std::size_t i = 0; i < m.fibers.size(); ++i) {
    Fiber& f = m.fibers[i];
    if (f.state != State::at_phase || !f.over(static_cast<int>(i / m.threads), f.barrier, f.parity)) continue;
    f.state = State::ready;
    any = true;
  }
  return any;
}

void order_of(std::vector<std::size_t>& all) {
  Machine& m = machine();
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (m.order == Order::backward) std::reverse(all.begin(), all.end());
  if (m.order == Order::shuffled) std::shuffle(all.begin(), all.end(), m.random);
}

// Copies the shared memory of the cluster's block `number` into block_memory.
void activate(std::size_t number) {
  Machine& m = machine();
  if (m.active == number) return;
  unsigned char* memory = ft::cuda::block_memory;
  const std::size_t bytes = m.shared + ft::cuda::kGuard;
  m.blocks[m.active].memory.assign(memory, memory + bytes);
  std::copy_n(m.blocks[number].memory.begin(), bytes, memory);
  m.active = number;
}

// Runs each of the n threads that is ready until it waits. Returns true if any ran.
bool run_ready(const std::size_t* threads, std::size_t n) {
  Machine& m = machine();
  bool moved = false;
  for (std::size_t i = 0; i < n; ++i) {
    if (m.fibers[threads[i]].state != State::ready) continue;
    m.current = threads[i];
    activate(m.current / m.threads);
    blockIdx = m.block().index;
    threadIdx = m.fibers[threads[i]].index;
    cuda_on_cpu_switch(&m.scheduler, m.fibers[threads[i]].stack);
    if (!m.fault.empty()) fail(std::exchange(m.fault, {}));
    moved = true;
  }
  return moved;
}

// Runs all warps of the cluster from barrier to barrier.
bool run_together(std::vector<std::size_t>& order) {
  Machine& m = machine();
  if (m.order == Order::shuffled) {
    order_of(order);
    std::stable_partition(order.begin(), order.end(),
                          [&](std::size_t i) { return i / m.threads == m.active; });
  }
  bool moved = run_ready(order.data(), order.size());
  for (std::size_t w = 0; w < order.size(); w += 32) moved |= release_warp(w);
  for (std::size_t b = 0; b < m.blocks.size(); ++b) moved |= release_block(b);
  return moved;
}

// Runs each block as far as possible before the next one begins, and within it each warp.
bool run_backward(const std::vector<std::size_t>& order) {
  Machine& m = machine();
  bool moved = false;
  for (std::size_t first = 0; first < order.size(); first += m.threads)
    for (bool more = true; more; moved |= more) {
      more = false;
      for (std::size_t w = first; w < first + m.threads; w += 32)
        while (run_ready(&order[w], 32) || release_warp(order[w] / 32 * 32)) more = true;
      more |= release_block(order[first] / m.threads);
    }
  return moved;
}

void run_cluster(std::vector<std::size_t>& order) {
  Machine& m = machine();
  for (;;) {
    bool moved = m.order == Order::backward ? run_backward(order) : run_together(order);
    moved |= release_cluster();
    moved |= release_phases();
    if (std::all_of(m.fibers.begin(), m.fibers.end(), [](auto& f) { return f.state == State::done; })) return;
    if (!moved && !land_box()) fail("deadlock: threads wait at different barriers");
  }
}

}  // namespace

void set_order(Order order) { machine().order = order; }
Order order() { return machine().order; }
int lane() { return static_cast<int>(machine().current % 32); }
std::size_t thread() { return machine().current; }
std::size_t shared_bytes() { return machine().shared; }
int cluster_rank() { return static_cast<int>(machine().current / machine().threads); }
int cluster_size() { return static_cast<int>(machine().blocks.size()); }
unsigned char* shared_of(int rank) {
  Machine& m = machine();
  const auto number = static_cast<std::size_t>(rank);
  return number == m.active ? ft::cuda::block_memory : m.blocks[number].memory.data();
}
bool has_ended(int rank) {
  Machine& m = machine();
  const std::span fibers = std::span(m.fibers).subspan(static_cast<std::size_t>(rank) * m.threads, m.threads);
  return std::all_of(fibers.begin(), fibers.end(), [](const Fiber& f) { return f.state == State::done; });
}
void meet_cluster() {
  machine().now().state = State::at_cluster;
  machine().leave();
}
// Returns to the scheduler, which throws the Fault.
void give_up(const char* what) {
  machine().fault = what;
  for (;;) machine().leave();
}

void block_barrier() {
  machine().now().state = State::at_block;
  machine().leave();
}
void arrive_at(int barrier, int threads) {
  Machine& m = machine();
  if (barrier < 1 || barrier > 15 || threads % 32 != 0) give_up("a named barrier that there is not");
  Named& b = m.block().named[static_cast<std::size_t>(barrier)];
  if (b.arrived > 0 && b.threads != threads) give_up("a named barrier of different numbers of threads");
  b.threads = threads;
  if (++b.arrived < threads) return;
  b = {};
  for (Fiber& f : std::span(m.fibers).subspan(m.current / m.threads * m.threads, m.threads))
    if (f.state == State::at_named && f.named == barrier) f.state = State::ready;
}
void meet_at(int barrier, int threads) {
  Fiber& f = machine().now();
  f.state = State::at_named;
  f.named = barrier;
  arrive_at(barrier, threads);
  if (f.state == State::at_named) machine().leave();
}
void wait_until(bool (*over)(int, unsigned, unsigned), unsigned barrier, unsigned parity) {
  Fiber& f = machine().now();
  if (over(cluster_rank(), barrier, parity)) return;
  f.over = over;
  f.barrier = barrier;
  f.parity = parity;
  f.state = State::at_phase;
  machine().leave();
}
bool at_random() { return machine().random() % 2 == 0; }
void let_others_go() { machine().leave(); }
int block_any(int mine) {
  machine().block().any |= mine != 0;
  block_barrier();
  return machine().block().any_result;
}

void exchange_all(Meeting meeting, unsigned mask, std::uint64_t mine, std::uint64_t (&all)[32]) {
  Machine& m = machine();
  const std::size_t warp = m.current / 32 * 32;
  m.now().value = mine;
  wait_for_warp(meeting, mask);
  const bool whole = mask == kWholeWarp;  // a full warp meets again only after all lanes have read `met`
  for (std::size_t l = 0; l < 32; ++l) all[l] = whole ? m.fibers[warp + l].met : m.fibers[warp + l].value;
  if (!whole) wait_for_warp(meeting, mask);  // no lane writes its next value before all have read this one
}
std::uint64_t exchange(Meeting meeting, unsigned mask, std::uint64_t mine, int from) {
  if (!(mask >> from & 1)) give_up("a shuffle takes the value of a lane outside its mask");
  std::uint64_t all[32];
  exchange_all(meeting, mask, mine, all);
  return all[from];
}

void prepare_cluster(const Launch& how, std::size_t first) {
  Machine& m = machine();
  unsigned char* memory = ft::cuda::block_memory;
  std::memset(memory, kPoison, how.shared);
  std::memset(memory + how.shared, kUntouched, ft::cuda::kGuard);
  m.active = 0;
  m.blocks.assign(how.cluster, {});
  for (std::size_t b = 0; b < how.cluster; ++b) {
    const auto n = static_cast<unsigned>(first + b);
    const dim3 grid = how.grid;
    m.blocks[b].index = {n % grid.x, n / grid.x % grid.y, n / (grid.x * grid.y)};
    if (b > 0) m.blocks[b].memory.assign(memory, memory + how.shared + ft::cuda::kGuard);
  }
  blockIdx = m.blocks[0].index;
  for (std::size_t i = 0; i < m.fibers.size(); ++i) prepare(m.fibers[i], i, how.block);
  begin_block(m.fibers.size());
  begin_barriers();
}

void run_blocks(const Launch& how, const std::function<void()>& body) {
  Machine& m = machine();
  if (!m.stacks)
    m.stacks = static_cast<std::byte*>(mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE,
                                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  m.threads = std::size_t{how.block.x} * how.block.y * how.block.z;
  if (m.threads % 32 != 0)
    throw Fault("a block of " + std::to_string(m.threads) + " threads is not whole warps");
  if (m.threads * how.cluster > kMostThreads) throw Fault("a cluster of more threads than there are fibers");
  blockDim = how.block;
  gridDim = how.grid;
  m.body = &body;
  m.shared = how.shared;
  m.fibers.resize(m.threads * how.cluster);
  std::vector<std::size_t> order(m.fibers.size()),
      clusters(std::size_t{how.grid.x} * how.grid.y * how.grid.z / how.cluster);
  order_of(order);
  order_of(clusters);
  for (const std::size_t c : clusters) {
    prepare_cluster(how, c * how.cluster);
    run_cluster(order);
    if (boxes_on_their_way()) fail("a box is on its way to a block that has ended");
    count_copies();
    for (std::size_t b = 0; b < how.cluster; ++b) {
      const unsigned char* behind = shared_of(static_cast<int>(b)) + how.shared;
      if (!std::all_of(behind, behind + ft::cuda::kGuard, [](unsigned char v) { return v == kUntouched; }))
        fail("a write beyond the shared memory that the launch asked for");
    }
  }
}

}  // namespace cuda_on_cpu
