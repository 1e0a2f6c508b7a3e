#include "engine/zero/file_depot.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "tests/engine/files/temp_folder.h"

namespace ft::test {
namespace {

class FileDepotTest : public testing::TestWithParam<MoverKind> {
 protected:
  // Skips tests of io_uring if the kernel or container refuses it.
  void SetUp() override {
    const ScratchFile file(folder_.path(), kFileBlock, "a test");
    if (!make_block_mover(1, GetParam(), file.file())) GTEST_SKIP() << "this kernel refuses io_uring";
  }
  TempFolder folder_;
};

Tensor bytes_of(std::vector<std::byte>& memory) {
  return {memory.data(), DType::u8, {static_cast<std::int64_t>(memory.size())}};
}

// Random puts and fetches, many at the same time, against plain memory.
TEST_P(FileDepotTest, ReturnsTheBytesThatWerePut) {
  constexpr std::int64_t kPiece = (std::int64_t{5} << 20) / 2 + 4096, kPieces = 4;
  FileDepot depot(folder_.path(), "a test", GetParam());
  for (std::int64_t i = 0; i < kPieces; ++i)
    EXPECT_EQ(depot.reserve(kPiece), i * round_up(kPiece, Depot::kBlock));
  depot.open();
  std::vector<std::byte> want(static_cast<std::size_t>(depot.size()));
  std::mt19937 random(7);
  const auto number = [&](std::int64_t below) {
    return static_cast<std::int64_t>(std::uniform_int_distribution<std::int64_t>(0, below - 1)(random));
  };
  struct Fetched {
    std::vector<std::byte> got, want;
  };
  std::deque<Fetched> fetched;
  std::deque<std::vector<std::byte>> kept;
  Depot::Ticket last = 0;
  for (int i = 0; i < 60; ++i) {
    const std::int64_t piece = number(kPieces), first = number(kPiece - 1), size = 1 + number(kPiece - first);
    if (i % 2 == 0) {  // a put begins at a block's start, and its last block contains nothing else
      std::vector<std::byte>& data =
          kept.emplace_back(static_cast<std::size_t>(kPiece - first / 4096 * 4096));
      for (std::byte& b : data) b = static_cast<std::byte>(random());
      const std::int64_t at = piece * round_up(kPiece, Depot::kBlock) + first / 4096 * 4096;
      std::copy(data.begin(), data.end(), want.begin() + at);
      last = depot.put(at, bytes_of(data));
    } else {
      const std::int64_t at = piece * round_up(kPiece, Depot::kBlock) + first;
      Fetched& f = fetched.emplace_back();
      f.got.resize(static_cast<std::size_t>(size));
      f.want.assign(want.begin() + at, want.begin() + at + size);
      last = depot.fetch(bytes_of(f.got), at);
    }
  }
  depot.finish(last);
  for (const Fetched& f : fetched) EXPECT_TRUE(f.got == f.want);
  EXPECT_EQ(folder_.entries(), 0u);
}

TEST_P(FileDepotTest, EndsWithTransfersUnderWay) {
  std::vector<std::byte> data(std::size_t{16} << 20, std::byte{1});
  FileDepot depot(folder_.path(), "a test", GetParam());
  depot.reserve(static_cast<std::int64_t>(data.size()));
  depot.open();
  depot.put(0, bytes_of(data));
  depot.fetch(bytes_of(data), 0);
}

// The error names the missing part of the file, and is repeated by later calls.
TEST_P(FileDepotTest, AnErrorNamesThePlace) {
  const ScratchFile file(folder_.path(), 8 * kFileBlock, "a test");
  ASSERT_EQ(ftruncate(file.file().fd, 5 * kFileBlock), 0);
  alignas(kFileBlock) static std::byte block[2 * kFileBlock];
  const auto mover = make_block_mover(2, GetParam(), file.file());
  mover->start(0, {&file.file(), 4 * kFileBlock, block, 2 * kFileBlock, false});
  EXPECT_EQ(error_of([&] { mover->wait(); }),
            "6 reading the offload file in folder " + folder_.path() + ", byte 20480: the file ends there");
}

TEST_P(FileDepotTest, WakesWaitingThreads) {
  const ScratchFile file(folder_.path(), kFileBlock, "a test");
  const auto mover = make_block_mover(1, GetParam(), file.file());
  for (int i = 0; i < 3; ++i) {
    std::thread other([&] { mover->wake(); });
    EXPECT_EQ(mover->wait(), BlockMover::kWoken);
    other.join();
  }
}

INSTANTIATE_TEST_SUITE_P(Each, FileDepotTest, testing::Values(MoverKind::uring, MoverKind::threads),
                         [](const auto& kind) {
                           return kind.param == MoverKind::uring ? "uring" : "threads";
                         });

// Answers of the system to a transfer of four blocks.
TEST(TransferProgress, GoesOnWhereATransferEnded) {
  const BlockFile file{-1, "a file"};
  std::byte* const data = nullptr;
  TransferProgress p({&file, 4096, data, 4 * kFileBlock, false});
  EXPECT_TRUE(p.take(-EINTR));
  EXPECT_TRUE(p.take(-EAGAIN));
  EXPECT_TRUE(p.take(100));
  EXPECT_EQ(p.left().bytes, 4 * kFileBlock);
  EXPECT_TRUE(p.take(kFileBlock + 5));
  EXPECT_EQ(p.left().at, 8192);
  EXPECT_EQ(p.left().data, data + kFileBlock);
  EXPECT_FALSE(p.take(3 * kFileBlock));
  TransferProgress again({&file, 0, data, 2 * kFileBlock, true});
  EXPECT_EQ(error_of([&] { again.take(-EIO); }), "6 writing a file, byte 0: Input/output error");
  EXPECT_EQ(error_of([&] { again.take(0); }), "6 writing a file, byte 0: No space left on device");
  EXPECT_EQ(error_of([&] {
              while (again.take(1)) continue;
            }),
            "6 writing a file, byte 0: Input/output error");
}

}  // namespace
}  // namespace ft::test
