// The activation of an MLP, gated or not, and its gradient.
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

}  // namespace ft::cpu::FT_TARGET
