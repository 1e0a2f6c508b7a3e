// The state of the running threads, for the instructions of warp.cpp.
#pragma once
#include <cstddef>

#include "tests/cuda_on_cpu/cuda_runtime.h"

namespace cuda_on_cpu {

std::size_t thread();        // number in the block, or in its cluster
std::size_t shared_bytes();  // bytes that the launch asked for
Order order();
void give_up(const char* what);  // does not return

void begin_block(std::size_t threads);
void count_copies();  // to be called when all threads of a block have ended
// Products of warpgroups (warpgroup.cpp). landed(): a copy has written this chunk of 16 bytes, which products
// see only after show_copies_to_products().
void begin_products(std::size_t threads);
void landed(unsigned at);
// The cluster's blocks: their number, the shared memory of each, and whether all threads of one have ended.
int cluster_size();
unsigned char* shared_of(int rank);
bool has_ended(int rank);
// Barriers and boxes (barriers.cpp).
void wait_until(bool (*over)(int rank, unsigned barrier, unsigned parity), unsigned barrier, unsigned parity);
void let_others_go();  // other threads run before the calling thread goes on
bool at_random();      // true or false, in Order::shuffled
void begin_barriers();
bool land_box();  // receives the oldest box that was requested; returns false if there was none
bool boxes_on_their_way();

}  // namespace cuda_on_cpu
