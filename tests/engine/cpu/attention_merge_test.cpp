// Merging attention over two sets of keys gives attention over both, for every target and with gaps between
// rows.
#include <cmath>

#include "tests/engine/cpu/leaf_fixture.h"

namespace ft::cpu {
namespace {

TEST(MergeAttention, IsTheReference) {
  const std::vector<Size> sizes{{1, 1}, {3, 5}, {2, 16}, {5, 63}, {79, 40}};
  for (const std::int64_t heads : {1, 3})
    each_trial(sizes, [&](const Trial& s) {
      const std::int64_t columns = heads * s.cols;
      Matrix &y = s.matrix(s.rows, columns, DType::f32).randomize(1),
             &lse = s.matrix(heads, s.rows, DType::f32).randomize(2, 30),
             &other = s.matrix(s.rows, columns, s.type).randomize(3),
             &other_lse = s.matrix(heads, s.rows, DType::f32).randomize(4, 30);
      std::vector<double> want_y, want_lse;
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t r = 0; r < s.rows; ++r)
          want_lse.push_back(std::log(std::exp(lse.get(h, r)) + std::exp(other_lse.get(h, r))));
      for (std::int64_t r = 0; r < s.rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c) {
          const std::int64_t h = c / s.cols;
          const double all = want_lse[static_cast<std::size_t>(h * s.rows + r)];
          want_y.push_back(std::exp(lse.get(h, r) - all) * y.get(r, c) +
                           std::exp(other_lse.get(h, r) - all) * other.get(r, c));
        }
      s.ops.run(op::MergeAttention{.y = y, .lse = lse, .other = other, .other_lse = other_lse});
      EXPECT_LT(nmse(y.values(), want_y), 1e-12);
      EXPECT_LT(nmse(lse.values(), want_lse), 1e-12);
    });
}

}  // namespace
}  // namespace ft::cpu
