// Sums of products in one pass on the host's stand-in for Hopper. With whole numbers, sums are exact and only
// the last rounding remains, so results must agree to the bit.
#include "engine/cuda/kernels/products_wgmma.h"

#include "tests/engine/cuda/on_both.h"

namespace ft::cuda {
namespace {

enum class Added { nothing, matrix, y_itself, row, narrow_row };

struct SumCase {
  std::int64_t m, n;
  std::vector<std::int64_t> depths;
  bool a_down = false, b_down = false;
  DType operands = DType::bf16, result = DType::bf16;
  Added added = Added::nothing;
  float alpha = 1;
  std::int64_t pad = 0, pad_a = pad, pad_b = pad;  // between rows
  bool exact = true;                               // whole numbers
};

struct SumFactors {
  OnBoth a, b;
  explicit SumFactors(const SumCase& c, std::int64_t k)
      : a(c.a_down ? k : c.m, c.a_down ? c.m : k, c.operands, c.pad_a),
        b(c.b_down ? k : c.n, c.b_down ? c.n : k, c.operands, c.pad_b) {}
};

// Runs a case, compares it with sums in f64 that are rounded once, and returns its result.
class SumInOnePass {
 public:
  explicit SumInOnePass(const SumCase& c) : c_(c), y_(c.m, c.n, c.result, c.pad) {
    int seed = 1;
    for (const std::int64_t k : c.depths) {
      terms_.emplace_back(c, k);
      SumFactors& t = terms_.back();
      c.exact ? t.a.fill(seed++, 2) : t.a.randomize(5);
      c.exact ? t.b.fill(seed++, 3) : t.b.randomize(6);
    }
    const bool row = c.added == Added::row || c.added == Added::narrow_row;
    if (c.added == Added::matrix || row)
      other_.emplace_back(row ? 1 : c.m, c.n, c.added == Added::narrow_row ? c.operands : c.result, c.pad);
    for (OnBoth& x : other_) x.fill(seed, 40, 0.125);
  }

  std::vector<double> run(Order order, int blocks = 4) {
    cuda_on_cpu::set_order(order);
    y_.fill(5, 60);
    const OnBoth* added = c_.added == Added::y_itself ? &y_ : other_.empty() ? nullptr : &other_.front();
    OnePass s{};
    for (const SumFactors& t : terms_)
      s.terms[s.count++] = {map_of(t.a.tensor, c_.a_down ? kBoxRowsDown : kBoxRows),
                            map_of(t.b.tensor, c_.b_down ? kBoxRowsDown : kBoxRows),
                            static_cast<int>(c_.a_down ? t.a.tensor.rows() : t.a.tensor.cols())};
    s.y = view_of(y_.tensor);
    s.c = view_of(added ? added->tensor : Tensor{});
    s.every_row = added && added->tensor.rows() != c_.m;
    s.alpha = c_.alpha;
    const std::vector<double> want = c_.exact ? expected(added) : std::vector<double>{};
    const Stream stream;
    one_pass(stream, s, c_.operands, c_.a_down, c_.b_down, blocks);
    check(cudaStreamSynchronize(stream), "test");
    y_.fetch();
    EXPECT_TRUE(y_.host.intact());
    const std::vector<double> got = y_.host.values();
    if (c_.exact) {
      EXPECT_EQ(got, want);
    }
    cuda_on_cpu::set_order(Order::forward);
    return got;
  }

 private:
  std::vector<double> expected(const OnBoth* added) const {
    Matrix sum(c_.m, c_.n, DType::f64), rounded(c_.m, c_.n, c_.result);
    for (std::int64_t r = 0; r < c_.m; ++r)
      for (std::int64_t column = 0; column < c_.n; ++column) {
        double v = 0;
        for (const SumFactors& t : terms_)
          for (std::int64_t k = 0; k < (c_.a_down ? t.a.tensor.rows() : t.a.tensor.cols()); ++k)
            v += (c_.a_down ? t.a.host.get(k, r) : t.a.host.get(r, k)) *
                 (c_.b_down ? t.b.host.get(k, column) : t.b.host.get(column, k));
        v = c_.alpha * v + (added ? added->host.get(added->tensor.rows() == c_.m ? r : 0, column) : 0);
        rounded.set(r, column, v);
      }
    return rounded.values();
  }

  SumCase c_;
  OnBoth y_;
  std::list<SumFactors> terms_;
  std::list<OnBoth> other_;
};

class OnePassOfProducts : public testing::Test {
 protected:
  OnePassOfProducts() { cuda_on_cpu::set_capability(9); }
  ~OnePassOfProducts() override { cuda_on_cpu::set_capability(8); }
};

void each_form(const std::function<void(bool a_down, bool b_down, Order)>& test) {
  for (const auto& [a_down, b_down] : {std::pair{false, false}, {false, true}, {true, true}})
    for (const Order order : kAllOrders) {
      SCOPED_TRACE(str("a_down ", a_down, ", b_down ", b_down, ", order ", int(order)));
      test(a_down, b_down, order);
    }
}

TEST_F(OnePassOfProducts, OfAllFormsBeyondATile) {
  each_form([](bool a_down, bool b_down, Order order) {
    SumInOnePass({.m = 136, .n = 264, .depths = {80}, .a_down = a_down, .b_down = b_down}).run(order);
  });
}

TEST_F(OnePassOfProducts, OfSeveralTermsAllDepths) {
  each_form([](bool a_down, bool b_down, Order order) {
    SumInOnePass({.m = 72,
                  .n = 40,
                  .depths = {8, 16, 24, 48, 56, 64, 72, 200},
                  .a_down = a_down,
                  .b_down = b_down,
                  .operands = DType::f16,
                  .result = DType::f16,
                  .alpha = 0.5f})
        .run(order);
  });
}

TEST_F(OnePassOfProducts, PlusAMatrixItselfOrARow) {
  for (const Added added : {Added::matrix, Added::y_itself, Added::row, Added::narrow_row})
    for (const DType result : {DType::bf16, DType::f32})
      for (const auto& [m, n] : {std::pair{128, 256}, {24, 72}}) {
        SCOPED_TRACE(str(int(added), " ", name_of(result), " ", m, " x ", n));
        SumInOnePass({.m = m,
                      .n = n,
                      .depths = {16, 96},
                      .b_down = true,
                      .result = result,
                      .added = added,
                      .alpha = 0.25f,
                      .pad = 8})
            .run(Order::shuffled);
      }
}

TEST_F(OnePassOfProducts, OfOddSizes) {
  for (const auto& [m, n, k] : {std::tuple{1, 8, 8}, {3, 260, 20}, {130, 5, 1}, {64, 259, 33}})
    for (const bool down : {false, true}) {
      SCOPED_TRACE(str(m, " x ", n, " x ", k, " ", down));
      const auto to_eight = [](std::int64_t x) { return (8 - x % 8) % 8; };
      // With these gaps, rows of all three matrices begin at multiples of eight elements.
      SumCase c{.m = m, .n = n, .depths = {k}, .b_down = down, .added = Added::y_itself};
      c.pad_a = to_eight(k), c.pad_b = to_eight(down ? n : k), c.pad = to_eight(n);
      for (const Order order : kAllOrders) SumInOnePass(c).run(order);
    }
}

// Returns the first rows of y.
std::vector<double> first_rows(std::vector<double> all, std::int64_t rows, std::int64_t columns) {
  all.resize(static_cast<std::size_t>(rows * columns));
  return all;
}

TEST_F(OnePassOfProducts, ARowIsTheSameAmongOthersAndWithAnyNumberOfBlocks) {
  const auto rows_of = [](std::int64_t m, Order order, int blocks) {
    SumInOnePass sum({.m = m, .n = 264, .depths = {16, 72}, .exact = false});
    return first_rows(sum.run(order, blocks), 40, 264);
  };
  const std::vector<double> rows = rows_of(40, Order::forward, 2);
  EXPECT_EQ(rows, rows_of(40, Order::backward, 4));
  EXPECT_EQ(rows, rows_of(2200, Order::forward, 2));
  EXPECT_EQ(rows, rows_of(300, Order::shuffled, 132));
}

}  // namespace
}  // namespace ft::cuda
