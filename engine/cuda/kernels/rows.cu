// Rows gathered and scattered by number, as bytes, and the gradient of an embedding.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"

namespace ft::cuda {
namespace {

// y[i] = x[index[i]] for n rows, or with `scatter` y[index[i]] = x[i]. zeros: negative indices give zeros;
// otherwise they are wrong.
struct RowCopy {
  View y, x;
  const std::int32_t* index;
  i64 n;
  bool scatter;
  Wrong kind;
  bool zeros = false;
};

// Copies units of 16, 4, 2 or 1 bytes: the largest that divides every address and the length of a row.
template <class Unit>
struct Copy {
  Unit* y;
  const Unit* x;
  i64 y_stride, x_stride, units;  // strides in units; units of a row
  const std::int32_t* index;
  i64 n, limit;
  bool scatter, zeros;
  Wrong kind;
  std::int32_t* wrong;
};

template <class Unit>
__global__ void __launch_bounds__(256) copy_rows(Copy<Unit> c) {
  const i64 unit = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (unit >= c.units) return;
  for (i64 i = blockIdx.y; i < c.n; i += gridDim.y) {
    const i64 other = c.index[i];
    if (c.zeros && other < 0) {
      c.y[i * c.y_stride + unit] = Unit{};
      continue;
    }
    if (other < 0 || other >= c.limit) {
      *c.wrong = static_cast<std::int32_t>(c.kind);
      continue;
    }
    c.y[(c.scatter ? other : i) * c.y_stride + unit] = c.x[(c.scatter ? i : other) * c.x_stride + unit];
  }
}

template <class Unit>
void run(const RowCopy& r, const Queue& queue) {
  const i64 size = size_of(r.x.type), each = static_cast<i64>(sizeof(Unit));
  const Copy<Unit> c{static_cast<Unit*>(r.y.data),
                     static_cast<const Unit*>(r.x.data),
                     r.y.stride * size / each,
                     r.x.stride * size / each,
                     r.x.cols * size / each,
                     r.index,
                     r.n,
                     r.scatter ? r.y.rows : r.x.rows,
                     r.scatter,
                     r.zeros,
                     r.kind,
                     queue.wrong};
  const unsigned threads = at_most(ceil_div(c.units, 32) * 32, 256);
  launch("copy_rows",
         {queue.stream, dim3(static_cast<unsigned>(ceil_div(c.units, threads)), at_most(r.n, kMostGridY)),
          threads},
         copy_rows<Unit>, c);
}

void copy(const RowCopy& r, const Queue& queue) {
  if (r.n == 0 || r.x.cols == 0) return;
  const i64 size = size_of(r.x.type);
  const auto bits = static_cast<i64>(reinterpret_cast<std::uintptr_t>(r.y.data) |
                                     reinterpret_cast<std::uintptr_t>(r.x.data)) |
                    (r.y.stride | r.x.stride | r.x.cols) * size;
  if (bits % 16 == 0)
    run<uint4>(r, queue);
  else if (bits % 4 == 0)
    run<std::uint32_t>(r, queue);
  else if (bits % 2 == 0)
    run<std::uint16_t>(r, queue);
  else
    run<std::uint8_t>(r, queue);
}

// ---- the gradient of an embedding
constexpr int kThreads = 256;

struct Shared {
  unsigned hits[kThreads / 32];  // bits of the block's rows with the id, 32 in a word
};

template <class T>
struct Grad {
  Rows<float> dtable;
  Rows<T> dy;
  const std::int32_t* ids;
  std::int32_t padding;
  i64 rows, cols, limit;
  bool wide;
  std::int32_t* wrong;
};

// Adds up all rows with the same id in order, in the block of the first such row; other blocks do nothing. So
// each row of the table is written by one block.
template <class T>
__global__ void __launch_bounds__(kThreads) add_rows(Grad<T> g) {
  Shared& shared = shared_memory<Shared>();
  const i64 first = blockIdx.x, thread = threadIdx.x;
  const std::int32_t id = g.ids[first];
  if (id < 0 || id == g.padding) return;
  if (id >= g.limit) {
    *g.wrong = static_cast<std::int32_t>(Wrong::id);
    return;
  }
  int before = 0;
  for (i64 i = thread; i < first; i += kThreads) before |= g.ids[i] == id;
  if (__syncthreads_or(before)) return;
  for (i64 from = first; from < g.rows; from += kThreads) {
    const unsigned votes = __ballot_sync(~0u, from + thread < g.rows && g.ids[from + thread] == id);
    if (thread % 32 == 0) shared.hits[thread / 32] = votes;
    __syncthreads();
    for (int w = 0; w < kThreads / 32; ++w)
      for (unsigned hits = shared.hits[w]; hits != 0; hits &= hits - 1) {
        const i64 row = from + w * 32 + __ffs(static_cast<int>(hits)) - 1;
        for (i64 i = thread * kPack; i < g.cols; i += kThreads * kPack) {
          float sum[kPack], d[kPack];
          const Pack pack = pack_at(i, g.cols, g.wide);
          load(sum, g.dtable.at(id, i), pack);
          load(d, g.dy.at(row, i), pack);
          for (int j = 0; j < kPack; ++j) sum[j] += d[j];
          store(g.dtable.at(id, i), sum, pack);
        }
      }
    __syncthreads();
  }
}

}  // namespace

void compute(const op::Embedding& op, const Queue& queue) {
  copy({view_of(op.y), view_of(op.table), data_of<const std::int32_t>(op.ids), op.y.rows(), false, Wrong::id,
        true},
       queue);
}
void compute(const op::GatherRows& op, const Queue& queue) {
  copy({view_of(op.y), view_of(op.x), data_of<const std::int32_t>(op.rows), op.y.rows(), false,
        Wrong::gathered_row},
       queue);
}
void compute(const op::ScatterRows& op, const Queue& queue) {
  copy({view_of(op.y), view_of(op.x), data_of<const std::int32_t>(op.rows), op.x.rows(), true,
        Wrong::scattered_row},
       queue);
}

void compute(const op::EmbeddingGrad& op, const Queue& queue) {
  const View dtable = view_of(op.dtable), dy = view_of(op.dy);
  if (dy.rows == 0 || dy.cols == 0) return;
  with_float(dy.type, [&](auto t) {
    using T = decltype(t);
    launch("embedding_grad", {queue.stream, dim3(at_most(dy.rows, kMostGridX)), kThreads, sizeof(Shared)},
           add_rows<T>,
           Grad<T>{Rows<float>(dtable), Rows<T>(dy), data_of<const std::int32_t>(op.ids), op.padding, dy.rows,
                   dy.cols, dtable.rows, wide({dtable, dy}), queue.wrong});
  });
}

}  // namespace ft::cuda
