// The activation of an MLP, gated or not, and its gradient; also with gates and ups in alternate columns.
#include "engine/cuda/kernels/drops.cuh"
#include "engine/cuda/kernels/kernels.h"
#include "engine/ops/math.h"

namespace ft::cuda {
namespace {

// Loads up; ones if there is no up.
template <class T>
__device__ void load_up(float (&u)[kPack], const Rows<T>& up, bool gated, i64 row, i64 column, Pack pack) {
  if (gated) return load(u, up.at(row, column), pack);
  for (float& e : u) e = 1;
}

template <Activation f, class T, class Drops>
struct Gated {
  Rows<T> y, gate, up;
  bool gated;
  Drops drops;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float g[kPack], u[kPack];
    load(g, gate.at(row, column), pack);
    load_up(u, up, gated, row, column, pack);
    for (int j = 0; j < kPack; ++j) u[j] *= math::activation<f>(g[j]).value * drops.growth();
    drops.zero(u, row, column);
    store(y.at(row, column), u, pack);
  }
};

// dgate and dup may be gate and up: a thread reads its pack before it writes it.
template <Activation f, class T, class Drops>
struct Gradient {
  Rows<T> dgate, dup, dy, gate, up;
  bool gated;
  Drops drops;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float d[kPack], g[kPack], u[kPack];
    load(d, dy.at(row, column), pack);
    load(g, gate.at(row, column), pack);
    load_up(u, up, gated, row, column, pack);
    drops.zero(d, row, column);
    for (float& one : d) one *= drops.growth();
    for (int j = 0; j < kPack; ++j) {
      const auto curve = math::activation<f>(g[j]);
      g[j] = d[j] * u[j] * curve.slope;
      u[j] = d[j] * curve.value;
    }
    store(dgate.at(row, column), g, pack);
    if (gated) store(dup.at(row, column), u, pack);
  }
};

// Loads the pairs of a pack of y from x, whose rows have twice as many columns.
template <class T>
__device__ void load_pairs(float (&g)[kPack], float (&u)[kPack], const T* x, Pack pack) {
  for (int j = 0; j < kPack; ++j) {
    g[j] = j < pack.count ? widened(x[2 * j]) : 0;
    u[j] = j < pack.count ? widened(x[2 * j + 1]) : 0;
  }
}

template <class T>
struct Pairs {
  Rows<T> y, x;
  float limit, steepness;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float g[kPack], u[kPack];
    load_pairs(g, u, x.at(row, 2 * column), pack);
    for (int j = 0; j < kPack; ++j) g[j] = math::limited_gate(g[j], u[j], limit, steepness).value;
    store(y.at(row, column), g, pack);
  }
};

// dx may be x: a thread reads its pairs before it writes them.
template <class T>
struct PairsGradient {
  Rows<T> dx, dy, x;
  float limit, steepness;
  __device__ void operator()(i64 row, i64 column, Pack pack) const {
    float d[kPack], g[kPack], u[kPack];
    load(d, dy.at(row, column), pack);
    load_pairs(g, u, x.at(row, 2 * column), pack);
    T* out = dx.at(row, 2 * column);
    for (int j = 0; j < kPack; ++j) {
      if (j >= pack.count) continue;
      const auto gate = math::limited_gate(g[j], u[j], limit, steepness);
      round_to(out[2 * j], d[j] * gate.by_gate);
      round_to(out[2 * j + 1], d[j] * gate.by_up);
    }
  }
};

template <Activation f>
struct Tag {
  static constexpr Activation value = f;
};
// Calls run(Tag, T{}) with the activation and the element type.
template <class Run>
void with_types(Activation f, DType type, Run run) {
  with_float(type, [&](auto t) {
    switch (f) {
      case Activation::silu:
        return run(Tag<Activation::silu>{}, t);
      case Activation::gelu:
        return run(Tag<Activation::gelu>{}, t);
      case Activation::gelu_tanh:
        return run(Tag<Activation::gelu_tanh>{}, t);
      case Activation::relu:
        return run(Tag<Activation::relu>{}, t);
      case Activation::sigmoid:
        return run(Tag<Activation::sigmoid>{}, t);
    }
  });
}

}  // namespace

void compute(const op::Gated& op, const Queue& queue) {
  const View y = view_of(op.y), gate = view_of(op.gate);
  const bool gated = static_cast<bool>(op.up);
  const View up = gated ? view_of(op.up) : gate;
  with_types(op.f, y.type, [&](auto tag, auto t) {
    using T = decltype(t);
    constexpr Activation kF = decltype(tag)::value;
    with_drops(op.drop, y.cols, [&](auto drops) {
      run_each_pack("gated", queue.stream, op.drop, {y, gate, up},
                    Gated<kF, T, decltype(drops)>{Rows<T>(y), Rows<T>(gate), Rows<T>(up), gated, drops});
    });
  });
}

void compute(const op::GatedGrad& op, const Queue& queue) {
  const View dgate = view_of(op.dgate), dy = view_of(op.dy), gate = view_of(op.gate);
  const bool gated = static_cast<bool>(op.up);
  const View up = gated ? view_of(op.up) : gate, dup = gated ? view_of(op.dup) : dgate;
  with_types(op.f, dy.type, [&](auto tag, auto t) {
    using T = decltype(t);
    constexpr Activation kF = decltype(tag)::value;
    with_drops(op.drop, dy.cols, [&](auto drops) {
      run_each_pack("gated_grad", queue.stream, op.drop, {dy, dgate, dup, gate, up},
                    Gradient<kF, T, decltype(drops)>{Rows<T>(dgate), Rows<T>(dup), Rows<T>(dy), Rows<T>(gate),
                                                     Rows<T>(up), gated, drops});
    });
  });
}

void compute(const op::GatedPairs& op, const Queue& queue) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    run_each_pack("gated_pairs", queue.stream, y.rows, y.cols, wide({y}),
                  Pairs<T>{Rows<T>(y), Rows<T>(x), op.limit, op.steepness});
  });
}

void compute(const op::GatedPairsGrad& op, const Queue& queue) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x);
  with_float(dy.type, [&](auto t) {
    using T = decltype(t);
    run_each_pack("gated_pairs_grad", queue.stream, dy.rows, dy.cols, wide({dy}),
                  PairsGradient<T>{Rows<T>(dx), Rows<T>(dy), Rows<T>(x), op.limit, op.steepness});
  });
}

}  // namespace ft::cuda
