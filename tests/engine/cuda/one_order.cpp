#include "tests/engine/cuda/both.h"

namespace ft::cuda {

int orders_of_trial() { return 1; }

}  // namespace ft::cuda
