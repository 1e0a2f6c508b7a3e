#include "engine/ranks/wire.h"

#include <algorithm>

#include "engine/core/require.h"

namespace ft {
namespace {

template <class T>
T rounded(float v) {
  T t;
  from_float(t, v);
  return t;
}

// Calls visit with a value of the wire's type.
void with_type(const Wire& w, const auto& visit) {
  if (w.dtype == DType::bf16) return visit(bf16{});
  if (w.dtype == DType::f16) return visit(f16{});
  throw InternalError("a sum over ranks does not travel as this type");
}

}  // namespace

void to_wire(const Wire& w, std::byte* y, const float* x, std::int64_t n) {
  with_type(w, [&]<class T>(T) {
    auto* out = reinterpret_cast<T*>(y);
    for (std::int64_t i = 0; i < n; ++i) out[i] = rounded<T>(x[i] * w.scale);
  });
}

void from_wire(const Wire& w, float* y, const std::byte* x, std::int64_t n) {
  with_type(w, [&]<class T>(T) {
    const auto* in = reinterpret_cast<const T*>(x);
    for (std::int64_t i = 0; i < n; ++i) y[i] = to_float(in[i]) / w.scale;
  });
}

void add_wires(const Wire& w, float* y, const float* own, std::span<const std::byte* const> arrived,
               std::int64_t n) {
  with_type(w, [&]<class T>(T) {
    constexpr std::int64_t kBlock = 512;  // elements; fits into the L1 cache
    float sum[kBlock];
    for (std::int64_t from = 0; from < n; from += kBlock) {
      const std::int64_t count = std::min(kBlock, n - from);
      std::fill_n(sum, count, 0.0f);
      for (const std::byte* part : arrived)
        for (std::int64_t i = 0; i < count; ++i)
          sum[i] += to_float(part ? reinterpret_cast<const T*>(part)[from + i]
                                  : rounded<T>(own[from + i] * w.scale));
      for (std::int64_t i = 0; i < count; ++i) y[from + i] = to_float(rounded<T>(sum[i])) / w.scale;
    }
  });
}

}  // namespace ft
