// Functions of both.h on a GPU, which takes threads and blocks in its own order.
#include "engine/cuda/nccl/nccl_communicator.h"
#include "tests/engine/cuda/both.h"

namespace ft::cuda {

void set_order(int) {}
std::vector<int> capabilities() { return {0}; }
void set_capability(int) {}
bool use_nccl() { return nccl_version().has_value(); }

}  // namespace ft::cuda
