// The 16-bit formats: every value survives a round trip, and rounding is to nearest with ties to even.
#include "engine/core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ft {
namespace {

template <class T>
float round_trip(float v) {
  T t;
  from_float(t, v);
  return to_float(t);
}

template <class T>
void every_value_survives() {
  for (std::uint32_t u = 0; u < 65536; ++u) {
    const T t{static_cast<std::uint16_t>(u)};
    const float v = to_float(t);
    T back;
    from_float(back, v);
    if (std::isnan(v))
      EXPECT_TRUE(std::isnan(to_float(back)));
    else
      ASSERT_EQ(back.bits, t.bits) << u;
  }
}

TEST(DType, EveryBf16Survives) { every_value_survives<bf16>(); }
TEST(DType, EveryF16Survives) { every_value_survives<f16>(); }

TEST(DType, RoundsToNearestEven) {
  EXPECT_EQ(round_trip<bf16>(1.0f + 1.0f / 256), 1.0f);               // tie, down to even
  EXPECT_EQ(round_trip<bf16>(1.0f + 3.0f / 256), 1.0f + 4.0f / 256);  // tie, up to even
  EXPECT_EQ(round_trip<f16>(1.0f + 1.0f / 2048), 1.0f);
  EXPECT_EQ(round_trip<f16>(1.0f + 3.0f / 2048), 1.0f + 4.0f / 2048);
  EXPECT_EQ(round_trip<f16>(65519.0f), 65504.0f);
  EXPECT_TRUE(std::isinf(round_trip<f16>(65520.0f)));
  EXPECT_EQ(round_trip<f16>(std::ldexp(1.0f, -24)), std::ldexp(1.0f, -24));
  EXPECT_EQ(round_trip<f16>(std::ldexp(1.0f, -25)), 0.0f);  // tie, down to even
  EXPECT_EQ(round_trip<f16>(std::ldexp(1.5f, -25)), std::ldexp(1.0f, -24));
}

}  // namespace
}  // namespace ft
