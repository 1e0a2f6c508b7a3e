// Sums over rows.
#include "engine/cuda/kernels/columns.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {

void compute(const op::ColumnSums& op, const Queue& queue) {
  const View x = view_of(op.x);
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    add_column_sums(queue.stream, data_of<float>(op.y), x, Elements<T>{Rows<T>(x), wide(x)});
  });
}

}  // namespace ft::cuda
