// Matrices with the values that they have after they are stored in blocks of few bits. Compiled without fused
// multiply-adds, which would change codes.
#include "engine/cpu/kernels/leaf_functions.h"
#include "engine/cpu/kernels/loops.h"

namespace ft::cpu::FT_TARGET {
namespace {

constexpr i64 kBlock = kBlockOfCodes;
static_assert(kBlock % kLanes == 0);

// The element of the largest magnitude, the first of equals; NaN if an element is not finite.
float furthest(const float* x) {
  Vec most = zero(), poison = zero();
  for (i64 i = 0; i < kBlock; i += kLanes) {
    const Vec v = load(x + i);
    most = max(most, abs(v));
    poison = poison + v * zero();
  }
  const float top = largest(most), wrong = sum(poison);
  if (wrong != wrong) return wrong;
  for (i64 i = 0; i < kBlock; ++i)
    if (__builtin_fabsf(x[i]) == top) return x[i];
  return 0;
}

// x (kBlock) becomes its decoded codes.
template <class Codes>
void quantize(float* x, Codes) {
  const float m = furthest(x), d = Codes::scale(m);
  const float inverse = block_inverse(d), stored = m == m ? stored_scale(d) : m;
  if (m == m)
    for (i64 i = 0; i < kBlock; ++i) x[i] = Codes::value(Codes::code(x[i] * inverse), stored);
  else
    for (i64 i = 0; i < kBlock; ++i) x[i] = stored;
}

}  // namespace

void compute(const op::FakeQuantize& op, Team& team) {
  const View y = view_of(op.y), x = view_of(op.x);
  const auto run = [&](auto to, auto from) {
    using Y = decltype(to);
    using X = decltype(from);
    with_codes(op.format, [&](auto codes) {
      each_row(y.rows, y.cols, team, [&](i64 r) {
        const X* px = at<X>(x, r);
        Y* py = at<Y>(y, r);
        for (i64 c = 0; c < y.cols; c += kBlock) {
          alignas(64) float v[kBlock];
          for (i64 i = 0; i < kBlock; i += kLanes) store(v + i, load(px + c + i));
          quantize(v, codes);
          for (i64 i = 0; i < kBlock; i += kLanes) store(py + c + i, load(v + i));
        }
      });
    });
  };
  with_float(y.type, [&](auto to) { with_float(x.type, [&](auto from) { run(to, from); }); });
}

}  // namespace ft::cpu::FT_TARGET
