// On a GPU: it takes threads and blocks in its own order.
#include "tests/engine/cuda/both.h"

namespace ft::cuda {

void set_order(int) {}

}  // namespace ft::cuda
