// The gradients of narrow matrices in one pass over dy, with whole numbers, so that sums are exact.
#include "engine/cuda/kernels/narrow_grad.h"

#include "tests/engine/cuda/on_both.h"

namespace ft::cuda {
namespace {

struct Narrow {
  std::int64_t m, n, r;
  DType type = DType::bf16, grad = DType::f32;
  std::int64_t pad = 0;
};

void expect_right(const Narrow& c, Order order) {
  SCOPED_TRACE(str(c.m, " x ", c.n, ", ", c.r, " columns, order ", int(order)));
  OnBoth dy(c.m, c.n, c.type, c.pad), b(c.n, c.r, c.type, c.pad), u(c.m, c.r, c.type, c.pad),
      du(c.m, c.r, c.type, c.pad), db(c.n, c.r, c.grad, c.pad);
  dy.fill(1, 2), b.fill(2, 3), u.fill(3, 2), du.fill(4, 9), db.fill(5, 9);
  Matrix want_du(c.m, c.r, c.type), want_db(c.n, c.r, c.grad);
  for (std::int64_t k = 0; k < c.r; ++k) {
    for (std::int64_t row = 0; row < c.m; ++row) {
      double sum = 0;
      for (std::int64_t i = 0; i < c.n; ++i) sum += dy.host.get(row, i) * b.host.get(i, k);
      want_du.set(row, k, 0.5 * sum);
    }
    for (std::int64_t i = 0; i < c.n; ++i) {
      double sum = db.host.get(i, k);
      for (std::int64_t row = 0; row < c.m; ++row) sum += dy.host.get(row, i) * u.host.get(row, k);
      want_db.set(i, k, sum);
    }
  }
  const Memory partial(static_cast<std::size_t>(narrow_grad_floats(c.m, c.n, c.r)));
  cuda_on_cpu::set_order(order);
  const Stream s;
  narrow_grad(s, {view_of(du.tensor), view_of(db.tensor), view_of(dy.tensor), view_of(b.tensor),
                  view_of(u.tensor), 0.5f, partial.get()});
  check(cudaStreamSynchronize(s), "test");
  cuda_on_cpu::set_order(Order::forward);
  du.fetch(), db.fetch();
  EXPECT_EQ(du.host.values(), want_du.values());
  EXPECT_EQ(db.host.values(), want_db.values());
  EXPECT_TRUE(du.host.intact() && db.host.intact());
}

TEST(NarrowGrad, IsRightInAllOrders) {
  cuda_on_cpu::set_capability(9);
  for (const Order order : kAllOrders) {
    expect_right({200, 72, 16}, order);
    expect_right({33, 1032, 8, DType::f16, DType::f32, 8}, order);
    expect_right({70, 520, 32, DType::bf16, DType::bf16, 8}, order);
    expect_right({1, 8, 24}, order);
  }
  expect_right({300, 640, 16}, Order::shuffled);
  cuda_on_cpu::set_capability(8);
}

}  // namespace
}  // namespace ft::cuda
