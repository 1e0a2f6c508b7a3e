// Boxes of matrices that the copying engine brings into shared memory, and barriers that count their bytes:
// instructions of compute capability 9.0. tests/cuda_on_cpu implements the same functions as loops.
//
// fetch_box: begins to copy the map's box at this row and column to `to`, a multiple of 1024 bytes. It
// becomes a panel of wgmma.cuh with the map's number of rows, and zeros beyond the matrix. Its bytes count at
// the barrier.
// prefetch_line: begins to load the 128 bytes around an address of the GPU's memory into its L2.
// prefetch_map: begins to load a map; otherwise its first box would wait for it.
//
// A barrier is 8 bytes of shared memory that goes through phases. A phase is over when the number of arrivals
// for which the barrier was made is reached, and all announced bytes have arrived.
// make_barrier, show_barriers: a thread makes barriers and shows them to the copying engine and, after the
// block's next barrier, to all other threads.
// arrive: the calling thread arrives. announce: it arrives, and this number of bytes will come in this phase.
// arrive_in: arrives at the barrier at the same place in another block of the cluster.
// wait_for_phase: waits until the phase of this parity is over; the first phase has parity 0. The phase
// before the first counts as over.
//
// A cluster is blocks that run together (Launch::cluster), numbered from 0. meet_cluster: waits until all
// their threads are here. fetch_box_for_all: like fetch_box, for the same place in each of two blocks; its
// bytes count at the barrier at the same place in each.
#pragma once
#include "engine/cuda/gemm/tensor_maps.h"
#include "engine/cuda/kernels/tiles.cuh"

namespace ft::cuda {

#ifdef __CUDACC__
__device__ inline void prefetch_line(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
}
__device__ inline void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
__device__ inline void make_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ inline void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ inline void arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void arrive_in(int rank, unsigned barrier) {
  asm volatile(
      "{.reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
      "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
__device__ inline void announce(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void wait_for_phase(unsigned barrier, unsigned parity) {
  unsigned over;
  do
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
  while (!over);
}
__device__ inline void fetch_box(unsigned to, const TensorMap& map, int row, int column, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
__device__ inline void fetch_box_for_all(unsigned to, const TensorMap& map, int row, int column,
                                         unsigned barrier) {
  constexpr std::uint16_t kBoth = 3;
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(kBoth)
      : "memory");
}
__device__ inline int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ inline void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;" ::: "memory");
}
#else
inline void prefetch_line(const void*) {}
inline void prefetch_map(const TensorMap&) {}
inline void make_barrier(unsigned barrier, int arrivals) { cuda_on_cpu::make_barrier(barrier, arrivals); }
inline void show_barriers() { cuda_on_cpu::show_barriers(); }
inline void arrive(unsigned barrier) { cuda_on_cpu::announce(barrier, 0); }
inline void arrive_in(int rank, unsigned barrier) { cuda_on_cpu::arrive_in(rank, barrier); }
inline void announce(unsigned barrier, unsigned bytes) { cuda_on_cpu::announce(barrier, bytes); }
inline void wait_for_phase(unsigned barrier, unsigned parity) {
  cuda_on_cpu::wait_for_phase(barrier, parity);
}
inline void fetch_box(unsigned to, const TensorMap& map, int row, int column, unsigned barrier) {
  cuda_on_cpu::fetch_box(to, map.opaque, row, column, barrier, false);
}
inline void fetch_box_for_all(unsigned to, const TensorMap& map, int row, int column, unsigned barrier) {
  cuda_on_cpu::fetch_box(to, map.opaque, row, column, barrier, true);
}
inline int cluster_rank() { return cuda_on_cpu::cluster_rank(); }
inline void meet_cluster() { cuda_on_cpu::meet_cluster(); }
#endif

}  // namespace ft::cuda
