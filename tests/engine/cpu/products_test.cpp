// Sums of products of every target against sums in f64.
#include "engine/cpu/products.h"
#include "engine/core/error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/engine/cpu/all_kernels.h"
#include "tests/support/adapter_share.h"

namespace ft::cpu {
namespace {

// A matrix with rows `pad` elements further apart than dense, in its own memory, so that ASan detects every
// read beyond it, with guard elements between and after the rows.
struct Matrix {
  Tensor tensor;
  std::vector<std::byte> memory;

  Matrix(std::int64_t rows, std::int64_t cols, DType dtype, std::int64_t pad, bool guards = false) {
    const std::int64_t stride = cols + pad, end = guards ? rows * stride + 8 : (rows - 1) * stride + cols;
    memory.assign(static_cast<std::size_t>(end * size_of(dtype)), std::byte{0x5a});
    tensor = Tensor(memory.data(), dtype, {rows, cols}, stride);
  }
  void fill(std::uint64_t seed) {
    for (std::int64_t i = 0; i < tensor.rows(); ++i)
      for (std::int64_t j = 0; j < tensor.cols(); ++j) {
        const auto u = Random{seed}.at(static_cast<std::uint64_t>(i * tensor.cols() + j))[0];
        set(i, j, static_cast<float>(u % 2001) / 1000.0f - 1.0f);
      }
  }
  void set(std::int64_t i, std::int64_t j, float v) {
    const std::int64_t at = i * tensor.stride + j;
    if (tensor.dtype == DType::f32)
      tensor.as<float>()[at] = v;
    else if (tensor.dtype == DType::bf16)
      from_float(tensor.as<bf16>()[at], v);
    else
      from_float(tensor.as<f16>()[at], v);
  }
  double get(std::int64_t i, std::int64_t j) const {
    const std::int64_t at = i * tensor.stride + j;
    if (tensor.dtype == DType::f16) return to_float(tensor.as<f16>()[at]);
    return tensor.dtype == DType::f32 ? tensor.as<float>()[at] : to_float(tensor.as<bf16>()[at]);
  }
  // Returns true if no byte outside the matrix has changed.
  bool guards_intact() const {
    const std::int64_t size = size_of(tensor.dtype), row = tensor.stride * size, used = tensor.cols() * size;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(memory.size()); ++i) {
      const bool inside = i / row < tensor.rows() && i % row < used;
      if (!inside && memory[static_cast<std::size_t>(i)] != std::byte{0x5a}) return false;
    }
    return true;
  }
};

enum class C { none, same, residual, bias, bias_of_operands };
struct Case {
  std::int64_t rows, cols;
  std::vector<std::int64_t> ks;
  DType operands, y;
  C c = C::none;
  int transposes = 0;  // bit 0: a, bit 1: b; the next terms have the next combinations
  std::int64_t pad = 0;
  float alpha = 1;
};
std::string to_string(const Case& t) {
  std::string ks;
  for (const auto k : t.ks) ks += std::to_string(k) + " ";
  return str(t.rows, " x ", t.cols, " x ", ks, name_of(t.operands), " to ", name_of(t.y), " c ",
             static_cast<int>(t.c), " transposes ", t.transposes, " pad ", t.pad);
}

struct Problem {
  std::vector<Matrix> a, b;
  std::vector<Term> terms;
  Matrix y, c;
  Tensor c_tensor;

  explicit Problem(const Case& t)
      : y(t.rows, t.cols, t.y, t.pad, true),
        c(t.c == C::residual ? t.rows : 1, t.cols, t.c == C::bias_of_operands ? t.operands : t.y, t.pad) {
    for (std::size_t i = 0; i < t.ks.size(); ++i) {
      const auto which = t.transposes + static_cast<int>(i);
      const bool ta = which & 1, tb = which & 2;
      a.emplace_back(ta ? t.ks[i] : t.rows, ta ? t.rows : t.ks[i], t.operands, t.pad);
      b.emplace_back(tb ? t.cols : t.ks[i], tb ? t.ks[i] : t.cols, t.operands, t.pad);
      a.back().fill(2 * i + 1);
      b.back().fill(2 * i + 2);
    }
    for (std::size_t i = 0; i < t.ks.size(); ++i) {
      const auto which = t.transposes + static_cast<int>(i);
      terms.push_back(
          {a[i].tensor, which & 1 ? Trans::yes : Trans::no, b[i].tensor, which & 2 ? Trans::yes : Trans::no});
    }
    y.fill(101);
    c.fill(102);
    if (t.c == C::same) c_tensor = y.tensor;
    if (t.c == C::residual) c_tensor = c.tensor;
    if (t.c == C::bias || t.c == C::bias_of_operands)
      c_tensor = Tensor(c.tensor.data, c.tensor.dtype, {t.cols});
  }
  // Returns the exact sum, and the sum of absolute values, which scales rounding errors.
  std::pair<double, double> exact(const Case& t, std::int64_t i, std::int64_t j) const {
    double sum = 0, size = 0;
    for (std::size_t e = 0; e < terms.size(); ++e)
      for (std::int64_t k = 0; k < t.ks[e]; ++k) {
        const bool ta = terms[e].ta == Trans::yes, tb = terms[e].tb == Trans::yes;
        const double v = (ta ? a[e].get(k, i) : a[e].get(i, k)) * (tb ? b[e].get(j, k) : b[e].get(k, j));
        sum += v;
        size += std::abs(v);
      }
    const double add = t.c == C::none       ? 0
                       : t.c == C::same     ? y.get(i, j)
                       : t.c == C::residual ? c.get(i, j)
                                            : c.get(0, j);
    return {t.alpha * sum + add, std::abs(t.alpha) * size + std::abs(add)};
  }
};

// Products are created once, because creating them takes memory.
Products& with_threads(const NamedKernels& k, int threads) {
  static std::map<int, Team> teams;
  static std::map<std::pair<std::string, int>, Products> all;
  Team& team = teams.try_emplace(threads, threads).first->second;
  return all.try_emplace({k.name, threads}, k.kernels.products, team).first->second;
}

// Runs a case on each of `all`, which must agree bitwise, and compares with the exact sums. `passes` is the
// number of times that the sum is rounded to y's type.
void check(const Case& t, const std::string& name, const std::vector<Products*>& all, double passes = 1) {
  SCOPED_TRACE(name + " " + to_string(t));
  Problem p(t);
  std::vector<std::pair<double, double>> want;
  for (std::int64_t i = 0; i < t.rows; ++i)
    for (std::int64_t j = 0; j < t.cols; ++j) want.push_back(p.exact(t, i, j));
  const auto before = p.y.memory;
  std::vector<std::byte> first;
  for (Products* products : all) {
    p.y.memory = before;
    p.y.tensor.data = p.y.memory.data();
    if (t.c == C::same) p.c_tensor = p.y.tensor;
    products->run({p.y.tensor, p.terms, t.alpha, p.c_tensor});
    EXPECT_TRUE(p.y.guards_intact());
    if (first.empty()) first = p.y.memory;
    ASSERT_EQ(first, p.y.memory) << "differs with another number of threads";
  }
  for (std::int64_t i = 0; i < t.rows; ++i)
    for (std::int64_t j = 0; j < t.cols; ++j) {
      const auto [exact, size] = want[static_cast<std::size_t>(i * t.cols + j)];
      // sums in f32: a few units of 2^-24 of the summed size; then half a unit of y
      const double unit = t.y == DType::bf16 ? 0.0039064 : t.y == DType::f16 ? 0.00048831 : 0;
      const double rounding = passes > 1 ? size * unit * passes : std::abs(exact) * unit;
      const double bound = size * 6e-7 + rounding + (t.y == DType::f16 ? 3e-8 : 1e-30);
      ASSERT_NEAR(p.y.get(i, j), exact, bound) << "at " << i << ", " << j;
    }
}
void check_all(const Case& t, std::initializer_list<int> thread_counts = {1, 2, 3}) {
  for (const auto& k : all_kernels()) {
    std::vector<Products*> all;
    for (const int threads : thread_counts) all.push_back(&with_threads(k, threads));
    check(t, k.name, all);
  }
}

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
// Returns the types that y may have for these operands.
std::vector<DType> results_of(DType operands) {
  if (operands == DType::f32) return {std::begin(kTypes), std::end(kTypes)};
  return {DType::f32, operands};
}

TEST(Products, OddSizesTransposesAndTypes) {
  for (const DType operands : kTypes)
    for (const DType y : results_of(operands))
      for (int transposes = 0; transposes < 4; ++transposes)
        for (const std::int64_t rows : {1, 5, 17, 49})
          for (const std::int64_t cols : {1, 15, 33, 130})
            for (const std::int64_t k : {1, 2, 31, 70})
              check_all({rows, cols, {k}, operands, y, C::none, transposes, rows % 3}, {1});
}

TEST(Products, EveryFormOfC) {
  for (const DType operands : kTypes)
    for (const DType y : results_of(operands))
      for (const C c : {C::none, C::same, C::residual, C::bias, C::bias_of_operands})
        for (const std::int64_t pad : {0, 5}) check_all({19, 37, {24}, operands, y, c, 2, pad, 0.37f});
}

TEST(Products, SeveralTermsOfAllTransposes) {
  for (const DType operands : kTypes)
    for (const DType y : results_of(operands)) {
      check_all({23, 70, {40, 16, 7, 1}, operands, y, C::none, 0, 3, 2});
      check_all({50, 18, {3, 300, 9}, operands, y, C::same, 1, 0, -0.5f});
      check_all({7, 66, std::vector<std::int64_t>(16, 9), operands, y, C::residual, 2});
    }
}

TEST(Products, LongSumsAndManyBlocks) {
  for (const DType operands : kTypes)
    for (int transposes = 0; transposes < 4; ++transposes) {
      check_all({13, 35, {2500}, operands, DType::f32, C::same, transposes, 1});
      check_all({6, 20, {700, 16, 1101}, operands, results_of(operands)[1], C::none, transposes});
    }
  check_all({1100, 80, {5}, DType::f32, DType::f32, C::none, 2});
  check_all({2, 1500, {9}, DType::bf16, DType::bf16, C::bias, 2});
}

// Few rows or columns are computed as y^T = sum of b^T a^T; an adapter's gradients have such shapes.
TEST(Products, FewRowsOrColumns) {
  for (const DType operands : kTypes)
    for (const DType y : results_of(operands))
      for (const C c : {C::none, C::same, C::residual, C::bias, C::bias_of_operands}) {
        check_all({3, 140, {40}, operands, y, c, 2, 1, 0.5f});
        check_all({140, 5, {40}, operands, y, c, 1, 1, 0.5f});
      }
  check_all({1, 700, {1100}, DType::f32, DType::f32, C::none, 2}, {2});
  check_all({500, 16, {1100}, DType::bf16, DType::f32, C::same, 1}, {2});
}

TEST(Products, OtherRowsChangeNoBit) {  // few rows take a separate code path
  for (const auto& k : all_kernels())
    for (const DType type : kTypes)
      for (const auto& [cols, depth] :
           {std::pair{70, 1100}, {5, 3}, {64, 1024}, {64, 2048}, {33, 31}, {129, 257}, {17, 40'000}}) {
        const int pad = depth == 2048 ? 0 : 3;  // depth 2048: all rows map to one set of the cache
        Matrix w(cols, depth, type, pad), x(40, depth, type, 0), u(40, 16, type, 0), b(cols, 16, type, 0);
        Matrix all(40, cols, type, 1, true);
        std::uint64_t seed = 0;
        for (Matrix* m : {&w, &x, &u, &b}) m->fill(++seed);
        const auto run = [&](Tensor y, std::int64_t rows) {
          const Term terms[] = {{x.tensor.slice(0, rows), Trans::no, w.tensor, Trans::yes},
                                {u.tensor.slice(0, rows), Trans::no, b.tensor, Trans::yes}};
          with_threads(k, 2).run({y, terms});
        };
        run(all.tensor, 40);
        for (const std::int64_t rows : {1, 2, 3, 4, 5, 7, 8, 17}) {
          Matrix y(rows, cols, type, 2, true);
          run(y.tensor, rows);
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < cols; ++j)
              ASSERT_EQ(y.get(i, j), all.get(i, j))
                  << k.name << " " << name_of(type) << " " << rows << " rows";
          EXPECT_TRUE(y.guards_intact());
        }
      }
}

TEST(Products, RowsWithAStrideOfAPowerOfTwo) {  // 4096 bytes: read through the strip buffer
  check_all({14, 20, {1024}, DType::f32, DType::f32, C::none, 2});
  check_all({14, 20, {2048}, DType::bf16, DType::f32, C::none, 2});
}

TEST(Products, EmptySumsAreC) {  // the gradient of an adapter that saw no rows
  for (const auto& k : all_kernels()) {
    Matrix y(3, 5, DType::f32, 0, true), c(3, 5, DType::f32, 0);
    y.fill(1);
    c.fill(2);
    const Term none{Tensor(c.tensor.data, DType::f32, {0, 3}), Trans::yes,
                    Tensor(c.tensor.data, DType::f32, {0, 5}), Trans::no};
    with_threads(k, 2).run({y.tensor, {&none, 1}, 1, c.tensor});
    for (std::int64_t i = 0; i < 3; ++i)
      for (std::int64_t j = 0; j < 5; ++j) EXPECT_EQ(y.get(i, j), c.get(i, j));
    EXPECT_TRUE(y.guards_intact());
    EXPECT_THROW(with_threads(k, 2).run({y.tensor, {}, 1, c.tensor}), InternalError);
  }
}

TEST(Products, RefusesWrongShapes) {
  Matrix y(3, 5, DType::f32, 0), a(3, 4, DType::f32, 0), b(4, 5, DType::f32, 0), h(4, 5, DType::bf16, 0);
  const auto check = [&](Tensor x, Trans tx, Tensor w, Trans tw, Tensor c = {}) {
    const Term t{x, tx, w, tw};
    op::Products{y.tensor, {&t, 1}, 1, c}.check();
  };
  EXPECT_NO_THROW(check(a.tensor, Trans::no, b.tensor, Trans::no));
  EXPECT_THROW(check(a.tensor, Trans::yes, b.tensor, Trans::no), InternalError);
  EXPECT_THROW(check(a.tensor, Trans::no, b.tensor, Trans::yes), InternalError);
  EXPECT_THROW(check(a.tensor, Trans::no, h.tensor, Trans::no), InternalError);
  EXPECT_THROW(check(a.tensor, Trans::no, b.tensor, Trans::no, b.tensor), InternalError);
  EXPECT_THROW(check(a.tensor, Trans::no, b.tensor, Trans::no, h.tensor), InternalError);
}

TEST(Products, WorkspaceIsBoundedAndKnown) {
  Team alone(1), three(3);
  for (const auto& k : all_kernels()) {
    const auto one = Products(k.kernels.products, alone, {}).workspace_bytes();
    EXPECT_EQ(Products(k.kernels.products, three, {}).workspace_bytes(), 3 * one);
    EXPECT_LT(one, 2 << 20) << k.name;
  }
}

// Products on CPUs with AMX: every form of a call, large enough for oneDNN or not, and mixed. On a CPU
// without oneDNN's bf16 ft's own kernel is used, which has to be right too.
TEST(Products, ThroughOneDnn) {
  Team alone(1), three(3);
  Products one(kernels_of(best_target()).products, alone, {.f32 = true, .bf16 = true});
  Products shared(kernels_of(best_target()).products, three, {.f32 = true, .bf16 = true});
  for (const DType operands : kTypes)
    for (const DType y : results_of(operands))
      for (const C c : {C::none, C::same, C::residual, C::bias, C::bias_of_operands})
        for (int transposes = 0; transposes < 4; ++transposes)
          for (const std::int64_t pad : {0, 5}) {
            check({70, 131, {77}, operands, y, c, transposes, pad}, "onednn", {&one}, 2);
            check({66, 64, {80, 9, 64, 16}, operands, y, c, transposes, pad}, "onednn", {&one}, 4);
            if (pad)
              check({130, 520, {70}, operands, y, c, transposes, pad}, "onednn in blocks", {&shared}, 2);
          }
  check({70, 70, {77}, DType::f32, DType::f32, C::same, 0, 0, 0.5f}, "alpha is the own kernel's", {&one});
  check({70, 70, {16}, DType::f32, DType::f32, C::residual}, "so are small terms", {&one});
}

// A gradient is overwritten under stages 0 and 1 of ZeRO, and added to zeros under 2 and 3.
void expect_bits_of_zeros(const std::string& name, Products& products, DType operands) {
  for (const auto& [rows, cols, k] : {std::tuple{9, 13, 6}, {70, 130, 520}}) {
    SCOPED_TRACE(str(name, " ", name_of(operands), " ", rows, " x ", cols));
    Problem p({rows, cols, {k}, operands, DType::f32, C::same, 1});
    const auto run = [&](float before, const Tensor& c) {
      std::fill_n(p.y.tensor.as<float>(), p.y.tensor.numel(), before);
      products.run({p.y.tensor, p.terms, 1, c});
      return p.y.memory;
    };
    EXPECT_EQ(run(NAN, {}), run(0, p.y.tensor));
  }
}

TEST(Products, AddedToZerosTheyHaveTheBitsOfOverwriting) {
  Team team(2);
  Products through_onednn(kernels_of(best_target()).products, team, {.f32 = true, .bf16 = true});
  for (const DType operands : kTypes) {
    for (const auto& k : all_kernels()) expect_bits_of_zeros(k.name, with_threads(k, 2), operands);
    expect_bits_of_zeros("onednn", through_onednn, operands);
  }
}

void expect_share(const std::string& name, Products& products, DType type, double unit) {
  for (const bool bias : {false, true})
    for (const double c : {1.0, 4.0})
      for (const double adapter : {1e-3, 3e-3}) {
        SCOPED_TRACE(str(name, " ", name_of(type), " c ", c, " adapter ", adapter, " bias ", bias));
        test::AdapterShare share({.c = c, .adapter = adapter, .type = type, .unit = unit, .bias = bias});
        std::vector<Tensor> tensors;
        for (const test::Matrix* m : share.matrices()) tensors.push_back(m->tensor);
        share.run(tensors, [&](const op::Products& op) { products.run(op); });
        EXPECT_GE(share.of_y(), share.in_pefts_order() - 0.01);
        // oneDNN adds a bias first, in f32, and so rounds as PEFT's order does.
        if (!bias || type != DType::f32) {
          EXPECT_NEAR(share.of_y(), 1, 0.06);
        }
      }
}

TEST(Products, AsMuchOfAnAdapterArrivesAsInPeftsOrder) {
  for (const auto& k : all_kernels())
    for (const DType type : {DType::bf16, DType::f16}) expect_share(k.name, with_threads(k, 2), type, 1);
}

// On a CPU without oneDNN's bf16, the test in f32 shows the order of the additions.
TEST(Products, AsMuchOfAnAdapterArrivesThroughOneDnn) {
  Team team(2);
  Products products(kernels_of(best_target()).products, team, {.f32 = true, .bf16 = true});
  expect_share("onednn", products, DType::bf16, 1);
  expect_share("onednn", products, DType::f32, 0x1p-16);
}

TEST(OneDnn, RunsOnEveryCpuInF32) {
  Team alone(1);
  Matrix y(70, 66, DType::f32, 0, true), a(70, 80, DType::f32, 0), b(80, 66, DType::f32, 0);
  std::vector<std::byte> scratch(16 << 20);
  const ProductTerm term{a.tensor.data, 80, false, b.tensor.data, 66, false, 80};
  ProductCall call{y.tensor.data, 66, DType::f32, 70,     66, &term,         1, DType::f32, 1,
                   nullptr,       0,  DType::f32, &alone, 1,  scratch.data()};
  OneDnn onednn;
  for (const bool onto : {false, true}) {
    EXPECT_TRUE(onednn.can(call, onto, 16 << 20));
    EXPECT_TRUE(onednn.run(call, onto, 16 << 20));
  }
  call.alpha = 2;
  EXPECT_FALSE(onednn.can(call, false, 16 << 20));
  EXPECT_FALSE(onednn.run(call, false, 16 << 20));
}

}  // namespace
}  // namespace ft::cpu
