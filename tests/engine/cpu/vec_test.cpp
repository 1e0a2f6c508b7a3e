// The vector type and the word tiles of every target, against scalar code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/cpu/target.h"
#include "tests/engine/cpu/vec_probe.h"

namespace ft::cpu {
namespace {

struct Named {
  std::string name;
  const VecProbe& probe;
};
std::vector<Named> probes() {
  std::vector<Named> all{{"avx2", avx2::vec_probe()},
                         {"avx512_on_avx2", avx512_on_avx2::vec_probe()},
                         {"avx512_bf16_on_avx2", avx512_bf16_on_avx2::vec_probe()}};
  for (const Target t : usable_targets()) {
    if (t == Target::avx512) all.push_back({name_of(t), avx512::vec_probe()});
    if (t == Target::avx512_bf16) all.push_back({name_of(t), avx512_bf16::vec_probe()});
  }
  return all;
}

const float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Vec, Exp2) {
  std::vector<float> x, y;
  for (float v = -126; v < 128; v += 0.00371f) x.push_back(v);
  y.resize(x.size());
  for (const auto& [name, p] : probes()) {
    p.exp2(y.data(), x.data(), static_cast<std::int64_t>(x.size()));
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = std::exp2(static_cast<double>(x[i]));
      worst = std::max(worst, std::abs(y[i] - want) / want);
    }
    EXPECT_LT(worst, 3e-7) << name;
    const float edges[] = {-kInf, -127, -126, 0, 1, 127, 128, 1e30f, kInf, kNan};
    float out[10];
    p.exp2(out, edges, 10);
    const float want[] = {0, 0, std::exp2(-126.0f), 1, 2, std::exp2(127.0f), kInf, kInf, kInf};
    for (int i = 0; i < 9; ++i) EXPECT_EQ(out[i], want[i]) << name << " " << edges[i];
    EXPECT_TRUE(std::isnan(out[9])) << name;
  }
}

TEST(Vec, SixteenBitFormatsRoundLikeTheScalarCode) {
  std::vector<float> x{0.0f,    -0.0f, 1,     -1,    1.00390625f, 1.01171875f,
                       3.4e38f, kInf,  -kInf, 65519, 65520,       6e-8f};
  for (std::uint32_t i = 0; i < 20011; ++i) {  // normal bf16 values and all midpoints between them
    const std::uint32_t bits = (i * 214013u) % 0x7f000000u | 0x00800000u;
    x.push_back(__builtin_bit_cast(float, i % 3 ? bits : (bits & 0xffff0000u) | 0x8000u));
  }
  const auto n = static_cast<std::int64_t>(x.size());
  for (const auto& [name, p] : probes()) {
    std::vector<bf16> b(x.size() + 1, bf16{0x1234});
    std::vector<f16> h(x.size() + 1, f16{0x1234});
    std::vector<float> back(x.size());
    p.to_bf16(b.data(), x.data(), n);
    p.to_f16(h.data(), x.data(), n);
    EXPECT_EQ(b.back().bits, 0x1234);
    EXPECT_EQ(h.back().bits, 0x1234);
    for (std::size_t i = 0; i < x.size(); ++i) {
      bf16 wb;
      f16 wh;
      from_float(wb, x[i]);
      from_float(wh, x[i]);
      ASSERT_EQ(b[i].bits, wb.bits) << name << " " << x[i];
      ASSERT_EQ(h[i].bits, wh.bits) << name << " " << x[i];
    }
    p.from_bf16(back.data(), b.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(back[i], to_float(b[i])) << name;
    p.from_f16(back.data(), h.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(back[i], to_float(h[i])) << name;
    const float nan = __builtin_bit_cast(float, 0x7f800001u);  // its payload would be rounded away
    p.to_bf16(b.data(), &nan, 1);
    EXPECT_TRUE(std::isnan(to_float(b[0]))) << name;
  }
}

TEST(Vec, ReductionsOfAnyNumberOfLanes) {
  const float x[16] = {-3, -5, -1, -2, -4, -1.5f, -7, -8, -0.5f, -9, -2, -3, -1, -6, -0.25f, -1};
  for (const auto& [name, p] : probes())
    for (std::int64_t n = 1; n <= p.lanes; ++n) {
      float total = 0, top = -kInf;
      for (std::int64_t i = 0; i < n; ++i) total += x[i], top = std::max(top, x[i]);
      EXPECT_EQ(p.sum(x, n), total) << name;
      EXPECT_EQ(p.largest(x, n), top) << name;
    }
}

// Returns element i of a matrix, distinct in small matrices and exact in bf16.
float value(std::int64_t i) { return static_cast<float>(i % 127 + 1); }

// Returns the word that holds elements e0 and e1 (pack 2) or e0 (pack 1) of a matrix of type t.
std::uint32_t word_of(std::int64_t pack, float e0, float e1) {
  if (pack == 1) return __builtin_bit_cast(std::uint32_t, e0);
  bf16 lo, hi;
  from_float(lo, e0);
  from_float(hi, e1);
  return lo.bits | static_cast<std::uint32_t>(hi.bits) << 16;
}

template <class T>
void check_words(const Named& named, std::int64_t rows, std::int64_t cols) {
  const VecProbe& p = named.probe;
  const std::int64_t ldx = cols + 3, pack = sizeof(T) == 2 ? p.pack_bf16 : 1;
  // exact size: ASan detects reads beyond
  std::vector<T> x(static_cast<std::size_t>((rows - 1) * ldx + cols));
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) from_float(x[i * ldx + j], value(i * cols + j));
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return i < rows && j < cols ? value(i * cols + j) : 0.0f;
  };
  const auto up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; };
  const std::uint32_t guard = 0xdeadbeef;

  const std::int64_t tw = up(cols, pack) / pack, ldt = up(rows, p.lanes);
  std::vector<std::uint32_t> t(static_cast<std::size_t>(tw * ldt + 1), guard);
  p.transpose(t.data(), ldt, x.data(), DTypeOf<T>::value, ldx, rows, cols);
  for (std::int64_t k = 0; k < tw; ++k)
    for (std::int64_t i = 0; i < ldt; ++i)
      ASSERT_EQ(t[k * ldt + i], word_of(pack, at(i, k * pack), at(i, k * pack + 1))) << named.name;
  EXPECT_EQ(t.back(), guard);

  const std::int64_t iw = up(rows, pack) / pack, ldi = up(cols, p.lanes);
  std::vector<std::uint32_t> w(static_cast<std::size_t>(iw * ldi + 1), guard);
  p.interleave(w.data(), ldi, x.data(), DTypeOf<T>::value, ldx, rows, cols);
  for (std::int64_t k = 0; k < iw; ++k)
    for (std::int64_t j = 0; j < ldi; ++j)
      ASSERT_EQ(w[k * ldi + j], word_of(pack, at(k * pack, j), at(k * pack + 1, j))) << named.name;
  EXPECT_EQ(w.back(), guard);
}

TEST(Words, TransposeAndInterleaveAnySize) {
  for (const auto& named : probes())
    for (const std::int64_t rows : {1, 2, 7, 8, 15, 16, 17, 33})
      for (const std::int64_t cols : {1, 2, 3, 8, 16, 31, 32, 33, 50}) {
        check_words<float>(named, rows, cols);
        check_words<bf16>(named, rows, cols);
      }
}

TEST(Target, AtLeastAvx2AndInOrder) {
  const auto targets = usable_targets();
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets.front(), Target::avx2);
  EXPECT_EQ(targets.back(), best_target());
  EXPECT_STREQ(name_of(Target::avx512_bf16), "avx512_bf16");
}

}  // namespace
}  // namespace ft::cpu
