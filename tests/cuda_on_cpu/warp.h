// What the threads of a block know about themselves, for the instructions of warp.cpp.
#pragma once
#include <cstddef>

#include "tests/cuda_on_cpu/cuda_runtime.h"

namespace cuda_on_cpu {

std::size_t thread();        // of the block, or of its cluster
std::size_t shared_bytes();  // what the launch asked for
Order order();
void give_up(const char* what);  // does not return

void begin_block(std::size_t threads);
void count_copies();  // all its threads have ended
// Of the products of warpgroups (warpgroup.cpp): a thread has written this chunk of 16 bytes by a copy, which
// products see behind show_copies_to_products() only.
void begin_products(std::size_t threads);
void landed(unsigned at);
// The cluster's blocks: their number, the shared memory of each, and whether all threads of one have ended.
int cluster_size();
unsigned char* shared_of(int rank);
bool has_ended(int rank);
// Barriers and boxes (barriers.cpp).
void wait_until(bool (*over)(int rank, unsigned barrier, unsigned parity), unsigned barrier, unsigned parity);
void let_others_go();  // before the calling thread goes on
bool at_random();      // one or the other, in Order::shuffled
void begin_barriers();
bool land_box();  // the oldest on its way; whether there was one
bool boxes_on_their_way();

}  // namespace cuda_on_cpu
