// Memory and the queue of the CUDA backend: uploaded memory may change at once, and work runs in order.
#include "tests/engine/cuda/both.h"

namespace ft::cuda {
namespace {

TEST(CudaQueue, UploadsOfEverySizeMayChangeAtOnce) {
  auto ops = make_cuda_ops(0, kSmall);
  std::vector<float> host;
  const Buffer memory = ops->allocate(1 << 20);
  // More small uploads than the staging memory holds, and some that are larger than it.
  std::int64_t at = 0;
  std::vector<float> want;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t n = i % 10 == 9 ? 3000 : 100 + 13 * i;
    host.assign(static_cast<std::size_t>(n), static_cast<float>(i));
    want.insert(want.end(), host.begin(), host.end());
    ops->upload(Tensor(memory.get() + at * 4, DType::f32, {n}), host.data());
    std::fill(host.begin(), host.end(), -1.0f);
    at += n;
  }
  std::vector<float> got(want.size());
  ops->download(got.data(), Tensor(memory.get(), DType::f32, {at}));
  EXPECT_EQ(got, want);
}

TEST(CudaQueue, KnowsItsDevice) {
  auto ops = make_cuda_ops(0, kSmall);
  EXPECT_EQ(ops->device(), (Device{Device::Kind::cuda, 0}));
  EXPECT_GE(ops->workspace(), kSmall.blas + kSmall.dense + kSmall.delta + kSmall.tiles);
  EXPECT_GT(ops->free_memory(), 0);
  EXPECT_TRUE(cuda_version());
}

TEST(CudaQueue, MarksOfTimeAreTakenInOrder) {
  auto ops = make_cuda_ops(0, kSmall);
  const Buffer memory = ops->allocate(1 << 20);
  const Tensor x(memory.get(), DType::f32, {1 << 18});
  const auto stamps = ops->stamps(4);
  double last = 0;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(stamps->room(), 4);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(stamps->mark(), i);
      ops->run(op::Fill{x, 1});
    }
    EXPECT_THROW(stamps->mark(), InternalError);
    const std::vector<double> times = stamps->take();
    ASSERT_EQ(times.size(), 4u);
    for (const double time : times) {
      EXPECT_GE(time, last);
      last = time;
    }
    EXPECT_LE(last, steady_seconds());
  }
  EXPECT_TRUE(stamps->take().empty());
}

TEST(CudaQueue, TheWorkspaceGrowsForMatricesThatAreMadeDense) {
  auto ops = make_cuda_ops(0, kSmall);
  const std::int64_t before = ops->workspace();
  ops->reserve_dense(kSmall.dense);
  EXPECT_EQ(ops->workspace(), before);
  ops->reserve_dense(3 * kSmall.dense);
  ops->reserve_dense(2 * kSmall.dense);
  EXPECT_EQ(ops->workspace(), before + 3 * kSmall.dense);
}

TEST(CudaQueue, MissingMemoryIsAUserError) {
  auto ops = make_cuda_ops(0, kSmall);
  try {
    ops->allocate(std::int64_t{1} << 40);
    ADD_FAILURE() << "accepted";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::memory);
    EXPECT_TRUE(std::string(e.what()).starts_with("the GPU does not have enough memory (reserving memory)"));
  }
}

TEST(CudaQueue, EmptyTensorsAreNoWork) {
  auto ops = make_cuda_ops(0, kSmall);
  const Buffer memory = ops->allocate(64);
  const Tensor x(memory.get(), DType::f32, {0, 4}), w(memory.get(), DType::f32, {4}),
      none(memory.get(), DType::f32, {0}), no_ids(memory.get(), DType::i32, {0});
  ops->run(op::Fill{x, 1});
  ops->run(op::Add{x, x});
  ops->copy(x, x);
  ops->run(op::RmsNorm{.y = x, .rstd = none, .x = x, .w = w, .eps = 1e-5f});
  ops->run(op::GatherRows{.y = x, .x = x, .rows = no_ids});
  ops->run(op::CrossEntropy{.loss = none, .logits = x, .targets = no_ids});
  product(*ops, x, {x, Trans::no, Tensor(memory.get(), DType::f32, {4, 4}), Trans::no});
  ops->synchronize();
}

}  // namespace
}  // namespace ft::cuda
