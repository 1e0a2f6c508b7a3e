// Stands in for the CUDA backend in a build without it.
#include "engine/cuda/cuda_ops.h"

namespace ft {

std::unique_ptr<Ops> make_cuda_ops(int index) {
  throw UserError(Exit::hardware,
                  str("device cuda:", index, ": this ft was built without CUDA; use device cpu"));
}

}  // namespace ft
