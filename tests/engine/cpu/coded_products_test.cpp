// Products with a weight in 4 or 8 bits or in FP8. If sums have one order, they have the bits of products
// with the dense matrix on every target; otherwise they are near sums in f64.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/core/error.h"
#include "engine/cpu/products.h"
#include "engine/formats/four_bit.h"
#include "engine/formats/fp8.h"
#include "engine/formats/int8.h"
#include "tests/engine/cpu/all_kernels.h"

namespace ft::cpu {
namespace {

std::vector<float> random_values(std::int64_t n, std::uint64_t seed) {
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 2 * to_uniform(Random{seed}.at(i)[0]) - 1;
  return x;
}

// A matrix of any type in its own memory, so that ASan detects reads beyond it.
struct Matrix {
  std::vector<std::byte> memory;
  Tensor tensor;
  Matrix(const std::vector<float>& values, Shape shape, DType dtype)
      : memory(static_cast<std::size_t>(shape.numel() * size_of(dtype))),
        tensor(memory.data(), dtype, shape) {
    for (std::size_t i = 0; i < values.size(); ++i)
      if (dtype == DType::f32)
        tensor.as<float>()[i] = values[i];
      else if (dtype == DType::bf16)
        from_float(tensor.as<bf16>()[i], values[i]);
      else
        from_float(tensor.as<f16>()[i], values[i]);
  }
  double operator[](std::int64_t i) const {
    if (tensor.dtype == DType::f16) return to_float(tensor.as<f16>()[i]);
    return tensor.dtype == DType::f32 ? tensor.as<float>()[i] : to_float(tensor.as<bf16>()[i]);
  }
};

template <class T>
Tensor view(std::vector<T>& v) {
  if (v.empty()) return Tensor{};
  return Tensor(reinterpret_cast<std::byte*>(v.data()), DTypeOf<T>::value,
                {static_cast<std::int64_t>(v.size())});
}

struct Quantized {
  FourBitData data;
  std::vector<float> dense;
  FourBitMatrix matrix;
  Term times(Tensor x, Trans t) const { return {x, Trans::no, {}, t, matrix}; }
  Quantized(Shape shape, FourBitForm form, std::uint64_t seed)
      : data(quantize(random_values(shape.numel(), seed), form)),
        dense(static_cast<std::size_t>(shape.numel())) {
    dequantize(dense, data);
    matrix = {
        form,
        shape,
        view(data.codes),
        form.nested ? view(data.absmax_codes) : view(data.absmax),
        view(data.nested_absmax),
        form.nested ? Tensor(reinterpret_cast<std::byte*>(&data.nested_offset), DType::f32, {1}) : Tensor{}};
  }
  Quantized(const Quantized&) = delete;
};

// A weight in 8 bits.
struct Int8 {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, dense;
  Int8Matrix matrix;
  Term times(Tensor x, Trans t) const {
    Term term{x, Trans::no, {}, t};
    term.int8 = matrix;
    return term;
  }
  Int8(Shape shape, std::uint64_t seed) : dense(random_values(shape.numel(), seed)) {
    const Int8Data data = quantize_int8(shape.numel(), DType::f32, [&](const Tensor& to, std::int64_t first) {
      std::copy_n(dense.data() + first, to.numel(), to.as<float>());
    });
    scales = data.scales;
    for (std::size_t i = 0; i < dense.size(); ++i) {
      codes.push_back(static_cast<std::uint8_t>(data.codes[i]));
      dense[i] = static_cast<float>(data.codes[i]) * scales[i / kInt8Block];
    }
    matrix = {shape, view(codes), view(scales)};
  }
  Int8(const Int8&) = delete;
};

// A weight in FP8 of any scheme: random codes, the smallest and largest among them, and scales of many sizes.
struct Fp8 {
  std::vector<std::uint8_t> codes;
  std::vector<float> scales, dense;
  Fp8Matrix matrix;
  Term times(Tensor x, Trans t) const {
    Term term{x, Trans::no, {}, t};
    term.fp8 = matrix;
    return term;
  }
  Fp8(Shape shape, Fp8Scheme scheme, std::uint64_t seed) {
    Fp8Data q{.scheme = scheme, .rows = shape[0], .cols = shape[1], .codes = {}, .scales = {}};
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
      const auto code = static_cast<std::uint8_t>(Random{seed}.at(std::uint64_t(i))[0]);
      q.codes.push_back(is_nan(e4m3{code}) ? 0x7e : code);
    }
    for (const float v : random_values(scheme.scales(shape[0], shape[1]), seed + 1))
      q.scales.push_back(v / 448);
    dense.resize(q.codes.size());
    dequantize(dense, q);
    codes = q.codes;
    scales = q.scales;
    matrix = {scheme, shape, view(codes), view(scales)};
  }
  Fp8(const Fp8&) = delete;
};

struct Case {
  std::int64_t rows, cols, k;
  Trans trans;  // of the weight: yes is x W^T
};

Shape shape_of(const Case& t) { return t.trans == Trans::yes ? Shape{t.cols, t.k} : Shape{t.k, t.cols}; }

// Computes y = x op(W) + u B + c, where u B is an adapter's term, with the coded and with the dense weight.
// Returns y.
std::vector<std::byte> check(const auto& w, const Case& t, DType dtype, Products& products, Sums sums) {
  const bool tb = t.trans == Trans::yes;
  const Matrix dense(w.dense, w.matrix.shape, dtype);
  const Matrix x(random_values(t.rows * t.k, 1), {t.rows, t.k}, dtype);
  const Matrix u(random_values(t.rows * 8, 4), {t.rows, 8}, dtype),
      b(random_values(8 * t.cols, 5), {t.cols, 8}, dtype);
  const Matrix c(random_values(t.cols, 6), {t.cols}, dtype);
  Matrix y({}, {t.rows, t.cols}, DType::f32), want({}, {t.rows, t.cols}, DType::f32);
  const Term adapter{u.tensor, Trans::no, b.tensor, Trans::yes};
  const Term packed[] = {w.times(x.tensor, t.trans), adapter};
  const Term plain[] = {{x.tensor, Trans::no, dense.tensor, t.trans}, adapter};
  products.run({y.tensor, packed, 0.5f, c.tensor});
  products.run({want.tensor, plain, 0.5f, c.tensor});
  if (sums == Sums::in_one_order) {
    EXPECT_EQ(y.memory, want.memory);
  }
  // With sums in any order, 8-bit codes are summed without scales; elements are not rounded to the type. In
  // FP8 the ends of rows, which fill no vectors, are.
  const bool fp8 = std::is_same_v<decltype(w), const Fp8&>;
  const bool exact_codes = sums == Sums::in_any_order && !std::is_same_v<decltype(w), const Quantized&> &&
                           tb && (fp8 || t.k % kInt8Block == 0);
  const double unit = dtype == DType::bf16 ? 0x1p-9 : dtype == DType::f16 ? 0x1p-12 : 0;
  const double bound = 6e-7 + (exact_codes && fp8 ? unit : 0);
  for (std::int64_t i = 0; i < t.rows; i += 3)
    for (std::int64_t j = 0; j < t.cols; j += 5) {
      double rounded = c[j], exact = c[j], size = std::fabs(c[j]);
      const auto add = [&](double left, double right, double unrounded) {
        rounded += 0.5 * left * right;
        exact += 0.5 * left * unrounded;
        size += std::fabs(left * right);
      };
      for (std::int64_t k = 0; k < t.k; ++k) {
        const std::int64_t at = tb ? j * t.k + k : k * t.cols + j;
        add(x[i * t.k + k], dense[at], w.dense[static_cast<std::size_t>(at)]);
      }
      for (std::int64_t k = 0; k < 8; ++k) add(u[i * 8 + k], b[j * 8 + k], b[j * 8 + k]);
      EXPECT_NEAR(y[i * t.cols + j], exact_codes ? exact : rounded, size * bound) << i << " " << j;
    }
  return y.memory;
}

// Calls f(case, type, products) for every target. Rows of some matrices are multiples of a block; depths may
// begin within one.
void each_case(Sums sums, const auto& f) {
  Team team(2);
  for (const auto& kernels : all_kernels()) {
    Products products(kernels.kernels.products, team, {}, sums);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const Trans trans : {Trans::no, Trans::yes})
        for (const auto& [rows, cols, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                                            {2, 40, 200},
                                            {4, 70, 1300},
                                            {33, 7, 5},
                                            {17, 65, 129},
                                            {50, 33, 91},
                                            {20, 150, 1300},
                                            {70, 400, 64},
                                            {1, 96, 768},
                                            {3, 72, 2112},
                                            {4, 32, 1152},
                                            {16, 100, 1152}}) {
          SCOPED_TRACE(str(kernels.name, " ", rows, " ", cols, " ", k, " ", name_of(dtype)));
          f(Case{rows, cols, k, trans}, dtype, products);
        }
  }
}

TEST(CodedProducts, FourBitsHaveTheBitsOfTheDenseMatrix) {
  each_case(Sums::in_one_order, [](const Case& t, DType dtype, Products& products) {
    for (const FourBitBook book : {FourBitBook::nf4, FourBitBook::fp4})
      for (const bool nested : {false, true}) {
        SCOPED_TRACE(str(name_of(book), " ", nested));
        check(Quantized(shape_of(t), {book, t.rows == 50 ? 32 : 64, nested}, 3), t, dtype, products,
              Sums::in_one_order);
      }
  });
}

TEST(CodedProducts, EightBitsHaveTheBitsOfTheDenseMatrix) {
  each_case(Sums::in_one_order, [](const Case& t, DType dtype, Products& products) {
    check(Int8(shape_of(t), 3), t, dtype, products, Sums::in_one_order);
  });
}

TEST(CodedProducts, Fp8HasTheBitsOfTheDenseMatrix) {
  each_case(Sums::in_one_order, [](const Case& t, DType dtype, Products& products) {
    for (const Fp8Scheme scheme : {kFp8Channels, kFp8Blocks, kFp8Tensor}) {
      SCOPED_TRACE(str("tiles of ", scheme.rows, " x ", scheme.cols));
      check(Fp8(shape_of(t), scheme, 3), t, dtype, products, Sums::in_one_order);
    }
  });
}

// A thousand random shapes, on the kernels of this machine.
TEST(CodedProducts, Fp8OfAnyShapeHasTheBitsOfTheDenseMatrix) {
  Team team(2);
  const auto all = all_kernels();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const auto draw = Random{11}.at(i), more = Random{12}.at(i);
    const Case t{1 + draw[0] % 40, 1 + draw[1] % 170, 1 + draw[2] % 400,
                 draw[3] % 2 == 0 ? Trans::yes : Trans::no};
    const DType dtype = std::array{DType::f32, DType::bf16, DType::f16}[more[0] % 3];
    const Fp8Scheme scheme = std::array{kFp8Channels, kFp8Blocks, kFp8Tensor}[more[1] % 3];
    SCOPED_TRACE(
        str(t.rows, " ", t.cols, " ", t.k, " ", name_of(dtype), " ", scheme.rows, " x ", scheme.cols));
    const bool any = t.rows <= 4 && more[2] % 2 == 0;
    const Sums sums = any ? Sums::in_any_order : Sums::in_one_order;
    const auto& kernels = all[more[3] % all.size()];
    Products products(kernels.kernels.products, team, {}, sums);
    check(Fp8(shape_of(t), scheme, i), t, dtype, products, sums);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

// Products of up to four rows. The result of a row does not depend on the other rows.
TEST(CodedProducts, InAnyOrderAreNearTheSums) {
  each_case(Sums::in_any_order, [](const Case& t, DType dtype, Products& products) {
    if (t.rows > 4) return;
    const auto both = [&](const auto& w) {
      const auto all = check(w, t, dtype, products, Sums::in_any_order);
      const auto first = check(w, {1, t.cols, t.k, t.trans}, dtype, products, Sums::in_any_order);
      EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
    };
    for (const std::int64_t block : {32, 64, 128}) {
      SCOPED_TRACE(str("block ", block));
      both(Quantized(shape_of(t), {FourBitBook::nf4, block, block == 64}, 3));
      both(Quantized(shape_of(t), {FourBitBook::fp4, block, block != 64}, 3));
    }
    both(Int8(shape_of(t), 3));
    for (const Fp8Scheme scheme : {kFp8Channels, kFp8Blocks, kFp8Tensor}) both(Fp8(shape_of(t), scheme, 3));
  });
}

TEST(Int8, CodesAreTheNearest) {
  std::vector<float> x = {0, 127, -127, 1.5f, 2.5f, -0.49f};
  x.resize(64);
  x.push_back(-2);  // the first element of the second block
  const auto read = [&](const Tensor& to, std::int64_t first) {
    std::copy_n(x.data() + first, to.numel(), to.as<float>());
  };
  const Int8Data q = quantize_int8(65, DType::f32, read);
  EXPECT_EQ(std::vector<int>(q.codes.begin(), q.codes.begin() + 6),
            (std::vector<int>{0, 127, -127, 2, 2, 0}));
  EXPECT_EQ(q.codes[64], -127);
  EXPECT_EQ(q.scales, (std::vector<float>{1, 2.0f / 127}));
  x[3] = INFINITY;
  EXPECT_THROW(quantize_int8(65, DType::f32, read), InternalError);
  x.assign(64, 0);
  EXPECT_EQ(quantize_int8(64, DType::f32, read).scales, (std::vector<float>{0}));
}

TEST(CodedProducts, StayWithTheOwnKernelBesideOneDnn) {
  Team team(2);
  Products products(kernels_of(best_target()).products, team, {.f32 = true, .bf16 = true});
  const Quantized w({96, 130}, {}, 3);
  const Matrix x(random_values(80 * 130, 1), {80, 130}, DType::f32), dense(w.dense, {96, 130}, DType::f32);
  Matrix y({}, {80, 96}, DType::f32);
  const Term term{x.tensor, Trans::no, {}, Trans::yes, w.matrix};
  products.run({y.tensor, {&term, 1}});
  for (std::int64_t i = 0; i < 80; ++i)
    for (std::int64_t j = 0; j < 96; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < 130; ++k) sum += x[i * 130 + k] * dense[j * 130 + k];
      ASSERT_NEAR(y[i * 96 + j], sum, 1e-4);
    }
}

}  // namespace
}  // namespace ft::cpu
