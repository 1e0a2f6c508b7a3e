// Ranks as threads, their tensors on a GPU: collectives through the host have the bits of ranks on CPUs.
#include "tests/support/ranks.h"
#include "engine/cuda/nccl/nccl_communicator.h"
#include "engine/ranks/staged_communicator.h"
#include "tests/engine/cuda/both.h"
#include "tests/engine/cuda/collectives.h"

namespace ft::cuda {
namespace {

constexpr std::initializer_list<DType> kAllTypes{DType::f32, DType::bf16, DType::f64};

class StagedRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, StagedRanks, testing::Values(1, 2, 3));

TEST_P(StagedRanks, HaveTheBitsOfCpus) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  std::vector<Bytes> cpu(ranks), gpu(ranks), overlapped(ranks);
  std::vector<std::int64_t> sent(ranks), sent_staged(ranks);
  rethrow_first(on_threads(GetParam(), [&](Ops& ops, Mesh mesh) {
    const auto r = static_cast<std::size_t>(mesh.rank);
    MeshCommunicator comm(ops, std::move(mesh), 20);
    cpu[r] = results(ops, comm, kAllTypes);
    sent[r] = comm.sent();
  }));
  // With so little memory on the host, collectives go through it in many pieces.
  const auto staged = [](Ops& gpu_ops, Ops& host, Mesh mesh) {
    auto inner = std::make_unique<MeshCommunicator>(host, std::move(mesh), 20);
    return std::make_unique<StagedCommunicator>(gpu_ops, std::move(inner), "", 1000);
  };
  rethrow_first(on_threads(GetParam(), [&](Ops& host, Mesh mesh) {
    const auto r = static_cast<std::size_t>(mesh.rank);
    const auto ops = make_cuda_ops(0, kSmall);
    const auto comm = staged(*ops, host, std::move(mesh));
    gpu[r] = results(*ops, *comm, kAllTypes);
    sent_staged[r] = comm->sent();
    EXPECT_EQ(comm->memory(), 0);
    EXPECT_EQ(comm->via(), "TCP through the host");
  }));
  rethrow_first(on_threads(GetParam(), [&](Ops& host, Mesh mesh) {
    const auto r = static_cast<std::size_t>(mesh.rank);
    const auto ops = make_cuda_ops(0, kSmall);
    OverlappedCommunicator comm(staged(*ops, host, std::move(mesh)));
    overlapped[r] = results(*ops, comm, kAllTypes);
  }));
  EXPECT_EQ(gpu, cpu);
  EXPECT_EQ(overlapped, cpu);
  EXPECT_EQ(sent_staged, sent);
}

// A collective sends results of operations that were queued before start(), from a separate thread, while
// more work is queued on the GPU.
TEST(StagedRanks, WaitForEarlierOperations) {
  rethrow_first(on_threads(2, [&](Ops& host, Mesh mesh) {
    const int rank = mesh.rank;
    const auto ops = make_cuda_ops(0, kSmall);
    OverlappedCommunicator comm(std::make_unique<StagedCommunicator>(
        *ops, std::make_unique<MeshCommunicator>(host, std::move(mesh), 20)));
    const auto pair = comm.split({.members = {0, 1}});
    There x(*ops, DType::f32, Bytes(4000)), y(*ops, DType::f32, Bytes(4000));
    for (int i = 1; i <= 20; ++i) {
      ops->run(op::Fill{x.tensor, static_cast<float>(i + rank)});
      Communicator& c = i % 2 ? static_cast<Communicator&>(comm) : *pair;
      const auto ticket = c.start([&](Communicator& now) { now.all_reduce(x.tensor); });
      ops->run(op::Fill{y.tensor, -1});
      c.finish(ticket);
      ops->run(op::Add{y.tensor, x.tensor});
      std::vector<float> got(1000);
      ops->download(got.data(), y.tensor);
      ASSERT_EQ(got, std::vector<float>(1000, static_cast<float>(2 * i)));
    }
  }));
}

// NCCL with a single rank; on a GPU the real library, if installed.
TEST(NcclRanks, OneAloneHasTheBitsOfCpus) {
  if (!use_nccl()) GTEST_SKIP() << "there is no NCCL";
  Bytes cpu, gpu;
  rethrow_first(on_threads(1, [&](Ops& host, Mesh mesh) {
    MeshCommunicator comm(host, std::move(mesh), 20);
    cpu = results(host, comm, {DType::f32, DType::f64});
  }));
  rethrow_first(on_threads(1, [&](Ops& host, Mesh mesh) {
    const auto ops = make_cuda_ops(0, kSmall);
    const auto comm =
        make_nccl_communicator(*ops, std::make_unique<MeshCommunicator>(host, std::move(mesh), 20), 20);
    gpu = results(*ops, *comm, {DType::f32, DType::f64});
    EXPECT_EQ(comm->sent(), 0);
    EXPECT_TRUE(comm->via().starts_with("NCCL 2.")) << comm->via();
  }));
  EXPECT_EQ(gpu, cpu);
}

}  // namespace
}  // namespace ft::cuda
