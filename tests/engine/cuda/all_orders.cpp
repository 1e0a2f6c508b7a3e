#include "tests/engine/cuda/both.h"

namespace ft::cuda {

int orders_of_trial() { return kOrders; }

}  // namespace ft::cuda
