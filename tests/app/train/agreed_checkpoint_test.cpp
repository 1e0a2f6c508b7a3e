// The checkpoint that a run of several ranks resumes from: the root's.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "app/train/run_folder.h"
#include "engine/files/file.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

using test::TempFolder;

void save(const TempFolder& folder, std::int64_t step) {
  CheckpointWriter writer(folder.path(), step);
  write_file(join_path(writer.path(), "a.bin"), "weights");
  writer.commit(Json::object());
}

RunConfig resuming(const std::string& folder) {
  RunConfig config;
  config.training.output_dir = folder;
  config.training.resume_from_checkpoint = Resume::newest_if_any;
  return config;
}

// Rank 1 sees another folder, as a machine whose view of a shared folder is old.
TEST(AgreedCheckpoint, IsTheRootsOnEveryRank) {
  const TempFolder seen, old;
  save(seen, 4);
  save(seen, 8);
  save(old, 4);
  run_ranks(2, [&](Communicator& comm) {
    const RunConfig config = resuming(comm.rank() == 0 ? seen.path() : old.path());
    RunFolder folder(config, false, comm.rank() == 0);
    folder.agree_on_checkpoint(comm);
    ASSERT_NE(folder.checkpoint(), nullptr);
    EXPECT_EQ(folder.checkpoint()->path, seen / "checkpoint-8");
    EXPECT_EQ(folder.checkpoint()->step, 8);
  });
}

TEST(AgreedCheckpoint, IsNoneOnEveryRankIfTheRootSeesNone) {
  const TempFolder empty, old;
  save(old, 4);
  run_ranks(2, [&](Communicator& comm) {
    const RunConfig config = resuming(comm.rank() == 0 ? empty.path() : old.path());
    RunFolder folder(config, false, comm.rank() == 0);
    folder.agree_on_checkpoint(comm);
    EXPECT_EQ(folder.checkpoint(), nullptr);
  });
}

TEST(AgreedCheckpoint, StopsAllRanksIfOneCannotReadIt) {
  const TempFolder seen, old;
  save(seen, 8);
  const auto thrown = run_ranks_catching(2, [&](Communicator& comm) {
    const RunConfig config = resuming(comm.rank() == 0 ? seen.path() : old.path());
    RunFolder folder(config, false, comm.rank() == 0);
    comm.barrier();  // the root has found it
    if (comm.rank() == 1) std::filesystem::remove_all(seen / "checkpoint-8");
    folder.agree_on_checkpoint(comm);
  });
  EXPECT_EQ(said(thrown[0]).code, Exit::peer_lost);
  EXPECT_EQ(said(thrown[1]).code, Exit::checkpoint);
}

}  // namespace
}  // namespace ft
