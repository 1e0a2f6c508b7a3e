// The activation of an MLP, gated or not, and its gradient; also with gates and ups in alternate columns.
#include "engine/cpu/kernels/drops.h"
#include "engine/cpu/kernels/leaf_functions.h"

namespace ft::cpu::FT_TARGET {
namespace {

// kGated: there is an up.
template <Activation f, class T, bool kGated>
void forward(const View& y, const View& gate, const View& up, const op::Drop& drop, Team& team) {
  const bool all_dense = dense(y) && dense(gate) && (!kGated || dense(up));
  each_dropped(y, all_dense, drop, team, [&](i64 row, i64 column, i64 n, const Drawn& drawn) {
    T* py = at<T>(y, row) + column;
    const T *pg = at<T>(gate, row) + column, *pu = kGated ? at<T>(up, row) + column : nullptr;
    each_vector(n, [&](auto part, i64 i) {
      Vec value = math::activation<f>(part.load(pg + i)).value;
      if constexpr (kGated) value = value * part.load(pu + i);
      part.store(py + i, drawn.kept(part, i, value) * drawn.growth);
    });
  });
}

template <Activation f, class T, bool kGated>
void backward(const View& dgate, const View& dup, const View& dy, const View& gate, const View& up,
              const op::Drop& drop, Team& team) {
  const bool all_dense = dense(dgate) && dense(dy) && dense(gate) && (!kGated || (dense(dup) && dense(up)));
  each_dropped(dy, all_dense, drop, team, [&](i64 row, i64 column, i64 n, const Drawn& drawn) {
    T *pdg = at<T>(dgate, row) + column, *pdu = kGated ? at<T>(dup, row) + column : nullptr;
    const T *pdy = at<T>(dy, row) + column, *pg = at<T>(gate, row) + column;
    const T* pu = kGated ? at<T>(up, row) + column : nullptr;
    each_vector(n, [&](auto part, i64 i) {
      const Vec d = drawn.kept(part, i, part.load(pdy + i)) * drawn.growth;
      const auto curve = math::activation<f>(part.load(pg + i));
      if constexpr (kGated) {
        const Vec u = part.load(pu + i);
        part.store(pdg + i, d * u * curve.slope);
        part.store(pdu + i, d * curve.value);
      } else {
        part.store(pdg + i, d * curve.slope);
      }
    });
  });
}

// Passes an activation as a type: calls are g(Tag<f>, T{}).
template <Activation f>
struct Tag {
  static constexpr Activation value = f;
};
template <class G>
void with_types(Activation f, DType type, G g) {
  with_float(type, [&](auto t) {
    switch (f) {
      case Activation::silu:
        return g(Tag<Activation::silu>{}, t);
      case Activation::gelu:
        return g(Tag<Activation::gelu>{}, t);
      case Activation::gelu_tanh:
        return g(Tag<Activation::gelu_tanh>{}, t);
      case Activation::relu:
        return g(Tag<Activation::relu>{}, t);
      case Activation::sigmoid:
        return g(Tag<Activation::sigmoid>{}, t);
    }
  });
}

// Splits a row's pairs into gates and ups, run by run, and calls f(first, n, gates, ups) for each run.
constexpr i64 kRunOfPairs = 64;
template <class T, class F>
void each_run_of_pairs(const T* x, i64 pairs, const F& f) {
  alignas(64) float gates[kRunOfPairs], ups[kRunOfPairs];
  for (i64 first = 0; first < pairs; first += kRunOfPairs) {
    const i64 n = least(kRunOfPairs, pairs - first);
    for (i64 i = 0; i < n; ++i) {
      gates[i] = to_float(x[2 * (first + i)]);
      ups[i] = to_float(x[2 * (first + i) + 1]);
    }
    f(first, n, gates, ups);
  }
}

}  // namespace

void compute(const op::Gated& op, Team& team) {
  const View y = view_of(op.y), gate = view_of(op.gate), up = view_of(op.up);
  with_types(op.f, y.type, [&](auto tag, auto t) {
    constexpr Activation kF = decltype(tag)::value;
    if (up.data) return forward<kF, decltype(t), true>(y, gate, up, op.drop, team);
    forward<kF, decltype(t), false>(y, gate, up, op.drop, team);
  });
}

void compute(const op::GatedGrad& op, Team& team) {
  const View dgate = view_of(op.dgate), dup = view_of(op.dup), dy = view_of(op.dy);
  const View gate = view_of(op.gate), up = view_of(op.up);
  with_types(op.f, dy.type, [&](auto tag, auto t) {
    constexpr Activation kF = decltype(tag)::value;
    if (up.data) return backward<kF, decltype(t), true>(dgate, dup, dy, gate, up, op.drop, team);
    backward<kF, decltype(t), false>(dgate, dup, dy, gate, up, op.drop, team);
  });
}

void compute(const op::GatedPairs& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  with_float(y.type, [&](auto t) {
    using T = decltype(t);
    each_row(y.rows, x.cols, team, [&](i64 r) {
      T* py = at<T>(y, r);
      each_run_of_pairs(at<T>(x, r), y.cols, [&](i64 first, i64 n, const float* gates, const float* ups) {
        each_vector(n, [&](auto part, i64 i) {
          part.store(py + first + i, math::limited_gate(part.load(gates + i), part.load(ups + i),
                                                        splat(op.limit), splat(op.steepness))
                                         .value);
        });
      });
    });
  });
}

void compute(const op::GatedPairsGrad& op, Team& team) {
  const View dx = view_of(op.dx), dy = view_of(op.dy), x = view_of(op.x);
  with_float(dy.type, [&](auto t) {
    using T = decltype(t);
    each_row(dy.rows, x.cols, team, [&](i64 r) {
      T* pdx = at<T>(dx, r);
      const T* pdy = at<T>(dy, r);
      each_run_of_pairs(at<T>(x, r), dy.cols, [&](i64 first, i64 n, const float* gates, const float* ups) {
        T by_gate[kRunOfPairs], by_up[kRunOfPairs];
        each_vector(n, [&](auto part, i64 i) {
          const Vec d = part.load(pdy + first + i);
          const auto gate = math::limited_gate(part.load(gates + i), part.load(ups + i), splat(op.limit),
                                               splat(op.steepness));
          part.store(by_gate + i, d * gate.by_gate);
          part.store(by_up + i, d * gate.by_up);
        });
        for (i64 i = 0; i < n; ++i) {
          pdx[2 * (first + i)] = by_gate[i];
          pdx[2 * (first + i) + 1] = by_up[i];
        }
      });
    });
  });
}

}  // namespace ft::cpu::FT_TARGET
