// Mixtures of experts: routes, and rows that are sorted by expert and put together again.
#include "engine/cuda/kernels/device.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/cuda/kernels/row_blocks.cuh"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

constexpr int kThreads = 256;
constexpr float kLog2e = static_cast<float>(math::kLog2e);
constexpr float kLowest = -__builtin_huge_valf();

// ---- routes: a thread for each token, because they are short
template <class T>
struct Routes {
  float *weights, *p;
  std::int32_t* ids;
  Rows<T> logits;
  const float* bias;
  i64 tokens, experts, choices;
  RouteRule rule;
};

template <class T>
__global__ void __launch_bounds__(kThreads) route_tokens(Routes<T> c) {
  const i64 row = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x, n = c.experts, k = c.choices;
  if (row >= c.tokens) return;
  const T* logits = c.logits.at(row);
  float *p = c.p + row * n, top = kLowest, total = 0, sum = 0;
  std::int32_t* ids = c.ids + row * k;
  if (c.rule.sigmoid) {
    for (i64 e = 0; e < n; ++e) p[e] = 1 / (1 + power_of_2(-to_float(logits[e]) * kLog2e));
  } else {
    for (i64 e = 0; e < n; ++e) top = fmaxf(top, to_float(logits[e]));
    for (i64 e = 0; e < n; ++e) total += p[e] = power_of_2((to_float(logits[e]) - top) * kLog2e);
    for (i64 e = 0; e < n; ++e) p[e] /= total;
  }
  math::choose_experts(ids, {p, c.bias}, n, k, c.rule);
  for (i64 j = 0; j < k; ++j) sum += p[ids[j]];
  const float divisor = math::route_divisor(c.rule, sum);
  for (i64 j = 0; j < k; ++j) c.weights[row * k + j] = p[ids[j]] / divisor * c.rule.scale;
}

template <class T>
struct RoutesBack {
  Rows<T> dlogits;
  const float *dweights, *p, *slope;
  const std::int32_t* ids;
  i64 tokens, experts, choices;
  RouteRule rule;
  std::int32_t* wrong;
};

template <class T>
__global__ void __launch_bounds__(kThreads) route_back(RoutesBack<T> c) {
  const i64 row = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x, n = c.experts, k = c.choices;
  if (row >= c.tokens) return;
  const float *p = c.p + row * n, *dweights = c.dweights + row * k;
  const std::int32_t* ids = c.ids + row * k;
  float sum = 0, dot = 0;
  for (i64 j = 0; j < k; ++j) {
    if (ids[j] < 0 || ids[j] >= n) {
      *c.wrong = static_cast<std::int32_t>(Wrong::expert);
      return;
    }
    sum += p[ids[j]];
  }
  sum = math::route_divisor(c.rule, sum);
  const float scale = c.rule.scale;
  const float pull = math::route_pull(c.rule, dweights, p, ids, k, sum);
  for (i64 e = 0; e < n && c.slope; ++e) dot += p[e] * c.slope[e];
  // With normalisation these add up to 0; their rounding would train the rows of experts that nobody chose.
  for (i64 j = 0; j < k && !c.rule.normalised; ++j) dot += p[ids[j]] * ((dweights[j] - pull) / sum * scale);
  for (i64 e = 0; e < n; ++e) {
    float g = c.slope ? c.slope[e] : 0;
    for (i64 j = 0; j < k; ++j)
      if (ids[j] == e) g += (dweights[j] - pull) / sum * scale;
    round_to(*c.dlogits.at(row, e), c.rule.sigmoid ? p[e] * (1 - p[e]) * g : p[e] * (g - dot));
  }
}

// ---- sorting: a block for each expert counts the choices of earlier experts, and then places the expert's
// own
struct Sort {
  std::int32_t *order, *tokens, *places, *starts;
  const std::int32_t* ids;
  i64 rows, choices, experts;
  std::int32_t* wrong;
};

struct SortShared {
  int warps[32];
  unsigned votes[kThreads / 32];
};

__device__ inline int bits_in(unsigned v) {
  int count = 0;
  for (; v != 0; v &= v - 1) ++count;
  return count;
}

__global__ void __launch_bounds__(kThreads) sort_rows(Sort c) {
  SortShared& shared = shared_memory<SortShared>();
  const i64 expert = blockIdx.x, thread = threadIdx.x;
  int before = 0;
  for (i64 i = thread; i < c.rows; i += kThreads) {
    before += c.ids[i] < expert;
    if (c.ids[i] < 0 || c.ids[i] >= c.experts) *c.wrong = static_cast<std::int32_t>(Wrong::expert);
  }
  i64 place = block_sum(before, shared.warps);
  if (thread == 0) {
    c.starts[expert] = static_cast<std::int32_t>(place);
    if (expert == 0) c.starts[c.experts] = static_cast<std::int32_t>(c.rows);
  }
  for (i64 from = 0; from < c.rows; from += kThreads) {
    const i64 i = from + thread;
    const bool own = i < c.rows && c.ids[i] == expert;
    const unsigned votes = __ballot_sync(~0u, own);
    if (thread % 32 == 0) shared.votes[thread / 32] = votes;
    __syncthreads();
    i64 at = place;
    for (int w = 0; w < kThreads / 32; ++w) {
      if (w < thread / 32) at += bits_in(shared.votes[w]);
      place += bits_in(shared.votes[w]);
    }
    if (own) {
      at += bits_in(votes & ((1u << thread % 32) - 1));
      c.order[at] = static_cast<std::int32_t>(i);
      c.tokens[at] = static_cast<std::int32_t>(i / c.choices);
      c.places[i] = static_cast<std::int32_t>(at);
    }
    __syncthreads();
  }
}

// ---- balance of the experts
struct Balance {
  double* loss;
  float* slope;
  const std::int32_t* starts;
  Rows<const float> sums;
  i64 layers, experts, choices;
  double weight, scale;
};

struct BalanceShared {
  double warps[32];
};

__global__ void __launch_bounds__(kThreads) balance(Balance c) {
  const i64 n = c.experts;
  double tokens = 0, total = 0;
  for (i64 l = 0; l < c.layers; ++l)
    tokens += static_cast<double>(c.starts[l * (n + 1) + n]) / static_cast<double>(c.choices);
  const double each = tokens > 0 ? 1 / tokens : 0;
  for (i64 e = threadIdx.x; e < n; e += kThreads) {
    double chosen = 0, p = 0;
    for (i64 l = 0; l < c.layers; ++l) {
      chosen += c.starts[l * (n + 1) + e + 1] - c.starts[l * (n + 1) + e];
      p += static_cast<double>(*c.sums.at(l, e));
    }
    const double f = chosen * each;
    total += f * p * each;
    c.slope[e] = static_cast<float>(c.scale * c.weight * static_cast<double>(n) * f * each);
  }
  total = block_sum(total, shared_memory<BalanceShared>().warps);
  if (threadIdx.x == 0) *c.loss += c.weight * static_cast<double>(n) * total;
}

// ---- rows
template <class T>
struct Scaled {
  Rows<T> y, x, dy;  // dy: only for the gradient, whose dx is y
  const float* w;
  float* dw;
  i64 cols;
  bool sigmoid, wide;
};

__device__ inline float factor_of(float w, bool sigmoid) {
  return sigmoid ? 1 / (1 + power_of_2(-w * kLog2e)) : w;
}

template <class T>
__global__ void __launch_bounds__(512) scale_row(Scaled<T> c) {
  const i64 row = blockIdx.x;
  const float factor = factor_of(c.w[row], c.sigmoid);
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, c.x.at(row, i), pack);
    for (float& e : v) e *= factor;
    store(c.y.at(row, i), v, pack);
  }
}

template <class T>
__global__ void __launch_bounds__(512) scale_row_back(Scaled<T> c) {
  const i64 row = blockIdx.x;
  const float factor = factor_of(c.w[row], c.sigmoid);
  float dot = 0;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float v[kPack], d[kPack];
    const Pack pack = pack_at(i, c.cols, c.wide);
    load(v, c.x.at(row, i), pack);
    load(d, c.dy.at(row, i), pack);
    for (int j = 0; j < kPack; ++j) {
      dot += d[j] * v[j];
      d[j] *= factor;
    }
    store(c.y.at(row, i), d, pack);
  }
  dot = block_sum(dot, shared_memory<RowShared>().warps);
  if (threadIdx.x == 0) c.dw[row] = c.sigmoid ? dot * factor * (1 - factor) : dot;
}

template <class T>
struct Gathered {
  Rows<T> y, x, c;
  const std::int32_t* rows;
  i64 cols, count, limit;
  bool wide;
  std::int32_t* wrong;
};

template <class T>
__global__ void __launch_bounds__(512) gather_row(Gathered<T> c) {
  const i64 row = blockIdx.x;
  for (i64 i = threadIdx.x * kPack; i < c.cols; i += blockDim.x * kPack) {
    float sum[kPack] = {};
    const Pack pack = pack_at(i, c.cols, c.wide);
    if (c.c.data) load(sum, c.c.at(row, i), pack);
    for (i64 j = 0; j < c.count; ++j) {
      const std::int32_t from = c.rows[row * c.count + j];
      if (from < 0 || from >= c.limit) {
        *c.wrong = static_cast<std::int32_t>(Wrong::gathered_row);
        continue;
      }
      float v[kPack];
      load(v, c.x.at(from, i), pack);
      for (int e = 0; e < kPack; ++e) sum[e] += v[e];
    }
    store(c.y.at(row, i), sum, pack);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) repeat(Rows<T> y, Rows<T> x, i64 elements, i64 cols, i64 times) {
  for (i64 i = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x; i < elements;
       i += static_cast<i64>(gridDim.x) * kThreads)
    *y.at(i / cols, i % cols) = *x.at(i / cols / times, i % cols);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    repeat_back(Rows<T> dx, Rows<T> dy, i64 elements, i64 cols, i64 times) {
  for (i64 i = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x; i < elements;
       i += static_cast<i64>(gridDim.x) * kThreads) {
    const i64 row = i / cols, column = i % cols;
    float sum = 0;
    for (i64 r = row * times; r < (row + 1) * times; ++r) sum += to_float(*dy.at(r, column));
    from_float(*dx.at(row, column), sum);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) turn(Rows<T> y, Rows<T> x, i64 rows, i64 cols) {
  for (i64 i = static_cast<i64>(blockIdx.x) * kThreads + threadIdx.x; i < rows * cols;
       i += static_cast<i64>(gridDim.x) * kThreads)
    *y.at(i / cols, i % cols) = *x.at(i % cols, i / cols);
}

Launch threads_for(const Queue& queue, i64 items, std::size_t shared = 0) {
  return {queue.stream, dim3(at_most(ceil_div(items, kThreads), kMostGridX)), kThreads, shared};
}

}  // namespace

void compute(const op::Route& op, const Queue& queue) {
  const View logits = view_of(op.logits), ids = view_of(op.ids);
  if (logits.rows == 0) return;
  with_float(logits.type, [&](auto t) {
    using T = decltype(t);
    launch("route", threads_for(queue, logits.rows), route_tokens<T>,
           Routes<T>{data_of<float>(op.weights), data_of<float>(op.p), data_of<std::int32_t>(op.ids),
                     Rows<T>(logits), data_of<const float>(op.bias), logits.rows, logits.cols, ids.cols,
                     op.rule});
  });
}

void compute(const op::RouteGrad& op, const Queue& queue) {
  const View dlogits = view_of(op.dlogits), ids = view_of(op.ids);
  if (dlogits.rows == 0) return;
  with_float(dlogits.type, [&](auto t) {
    using T = decltype(t);
    launch("route_grad", threads_for(queue, dlogits.rows), route_back<T>,
           RoutesBack<T>{Rows<T>(dlogits), data_of<const float>(op.dweights), data_of<const float>(op.p),
                         data_of<const float>(op.slope), data_of<const std::int32_t>(op.ids), dlogits.rows,
                         dlogits.cols, ids.cols, op.rule, queue.wrong});
  });
}

void compute(const op::GroupRows& op, const Queue& queue) {
  const View ids = view_of(op.ids);
  const i64 experts = op.starts.numel() - 1;
  launch("group_rows", {queue.stream, dim3(static_cast<unsigned>(experts)), kThreads, sizeof(SortShared)},
         sort_rows,
         Sort{data_of<std::int32_t>(op.order), data_of<std::int32_t>(op.tokens),
              data_of<std::int32_t>(op.places), data_of<std::int32_t>(op.starts),
              data_of<const std::int32_t>(op.ids), ids.rows * ids.cols, ids.cols, experts, queue.wrong});
}

void compute(const op::RouterBalance& op, const Queue& queue) {
  const View sums = view_of(op.sums);
  launch("router_balance", {queue.stream, dim3(1), kThreads, sizeof(BalanceShared)}, balance,
         Balance{data_of<double>(op.loss), data_of<float>(op.slope), data_of<const std::int32_t>(op.starts),
                 Rows<const float>(sums), sums.rows, sums.cols, op.choices, op.weight, op.scale});
}

void compute(const op::ScaleRows& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x);
  if (x.rows == 0) return;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    launch("scale_rows", a_block_for_each_row(queue, x.rows, x.cols, 512), scale_row<T>,
           Scaled<T>{Rows<T>(y), Rows<T>(x), Rows<T>(x), data_of<const float>(op.w), nullptr, x.cols,
                     op.sigmoid, wide({y, x})});
  });
}

void compute(const op::ScaleRowsGrad& op, const Queue& queue) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x);
  if (x.rows == 0) return;
  with_float(x.type, [&](auto t) {
    using T = decltype(t);
    launch("scale_rows_grad", a_block_for_each_row(queue, x.rows, x.cols, 512), scale_row_back<T>,
           Scaled<T>{Rows<T>(dx), Rows<T>(x), Rows<T>(dy), data_of<const float>(op.w), data_of<float>(op.dw),
                     x.cols, op.sigmoid, wide({dx, dy, x})});
  });
}

void compute(const op::GatherSum& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x), c = view_of(op.c), rows = view_of(op.rows);
  if (y.rows == 0) return;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    launch("gather_sum", a_block_for_each_row(queue, y.rows, y.cols, 512), gather_row<T>,
           Gathered<T>{Rows<T>(y), Rows<T>(x), Rows<T>(c), data_of<const std::int32_t>(op.rows), y.cols,
                       rows.cols, x.rows, wide({y, x, c}), queue.wrong});
  });
}

void compute(const op::RepeatRows& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x);
  const i64 elements = y.rows * y.cols;
  if (elements == 0) return;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    launch("repeat_rows", threads_for(queue, elements), repeat<T>, Rows<T>(y), Rows<T>(x), elements, y.cols,
           y.rows / x.rows);
  });
}

void compute(const op::RepeatRowsGrad& op, const Queue& queue) {
  const View dx = view_of(op.dx), dy = view_of(op.dy);
  const i64 elements = dx.rows * dx.cols;
  if (elements == 0) return;
  with_float(dx.type, [&](auto t) {
    using T = decltype(t);
    launch("repeat_rows_grad", threads_for(queue, elements), repeat_back<T>, Rows<T>(dx), Rows<T>(dy),
           elements, dx.cols, dy.rows / dx.rows);
  });
}

void compute(const op::Transpose& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x);
  if (y.rows == 0 || y.cols == 0) return;
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    launch("transpose", threads_for(queue, y.rows * y.cols), turn<T>, Rows<T>(y), Rows<T>(x), y.rows, y.cols);
  });
}

}  // namespace ft::cuda
