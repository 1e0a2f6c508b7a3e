// A faulty disk below the files of values and states: the run ends with exit 6 and names the place, or it is
// the same training.
#include <cerrno>

#include "engine/core/error.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

const std::string kSection = "zero_optimization.";
const std::vector<std::string> kAllInFiles = {
    kSection + "offload_param.device=nvme",     kSection + "offload_param.nvme_path=files",
    kSection + "offload_optimizer.device=nvme", kSection + "offload_optimizer.nvme_path=files",
    kSection + "sub_group_size=4096",           kSection + "stage3_param_persistence_threshold=0"};

class OffloadFaults : public testing::TestWithParam<bool> {
 protected:
  OffloadFaults() { fs::create_directory(w / "files"); }
  // Runs ft train on a disk with these faults, with io_uring or without it.
  int train(const std::string& faults, std::vector<std::string> more = {}) const {
    const std::string refused = str(" uring:", EPERM);
    setenv("LD_PRELOAD", file_faults(), 1);
    setenv("FT_FAULTS", (faults + (GetParam() ? "" : refused)).c_str(), 1);
    more.insert(more.end(), kAllInFiles.begin(), kAllInFiles.end());
    more.emplace_back("training.max_steps=6");
    const int exit = w.train(more);
    unsetenv("LD_PRELOAD");
    unsetenv("FT_FAULTS");
    EXPECT_TRUE(fs::is_empty(w / "files")) << faults;
    return exit;
  }
  std::vector<double> result() const { return losses(w / "out"); }

  const Workplace w{"llama", kFull};
};
INSTANTIATE_TEST_SUITE_P(By, OffloadFaults, testing::Bool(),
                         [](const auto& uring) { return uring.param ? "uring" : "threads"; });

TEST_P(OffloadFaults, AnErrorNamesThePlaceAndTheRunResumes) {
  ASSERT_EQ(w.train({"training.max_steps=6"}), 0) << w.says();
  const std::vector<double> want = result();
  const std::string weights = contents(w / file_of(kFull));
  for (const auto& [fault, doing] : {std::pair{"read:200", "reading"}, {"write:100", "writing"}}) {
    fs::remove_all(w / "out");
    const std::vector<std::string> save = {"checkpointing.save_strategy=steps", "checkpointing.save_steps=1",
                                           "training.resume_from_checkpoint=auto"};
    ASSERT_EQ(train(fault, save), 6) << w.says();
    const std::string said = str(doing, " the offload file in folder files, byte ");
    EXPECT_NE(w.says().find(said), std::string::npos) << w.says();
    EXPECT_NE(w.says().find(": Input/output error"), std::string::npos) << w.says();
    EXPECT_TRUE(fs::exists(w / "out/checkpoint-1"));
    ASSERT_EQ(train("", save), 0) << w.says();
    EXPECT_EQ(result(), want);
    EXPECT_TRUE(contents(w / file_of(kFull)) == weights);
  }
}

TEST_P(OffloadFaults, ShortSlowOrCachedTransfersTrainEqually) {
  ASSERT_EQ(w.train({"training.max_steps=6"}), 0) << w.says();
  const std::vector<double> want = result();
  const std::string by = GetParam() ? "io_uring" : "threads";
  for (const std::string fault : {"short", "slow:1", "indirect", "short indirect"}) {
    ASSERT_EQ(train(fault, {str("training.output_dir=", "by-", fault)}), 0) << w.says();
    const fs::path out = w / ("by-" + fault);
    EXPECT_EQ(losses(out), want) << fault;
    const bool cached = fault.find("indirect") != fault.npos;
    const std::string way = rows(out / "log.jsonl").back().at("files_by");
    if (cached) {
      EXPECT_EQ(way, by + ", through the page cache");
    }
    EXPECT_EQ(way.substr(0, by.size()), by);
  }
}

TEST_P(OffloadFaults, AFullDiskEndsTheRunBeforeItBegins) {
  EXPECT_EQ(train("full"), 6);
  EXPECT_NE(w.says().find("nvme_path: files has no room for"), std::string::npos) << w.says();
  EXPECT_NE(w.says().find("No space left on device"), std::string::npos) << w.says();
  EXPECT_FALSE(fs::exists(w / "out/log.jsonl"));
}

// A killed command leaves its file if the file system gives every file a name; the next command removes it.
TEST_P(OffloadFaults, AFileThatAKilledCommandLeftIsRemoved) {
  std::ofstream(w / "files/.offload.tmp-ft0123456789") << "old";
  EXPECT_EQ(train("named"), 0) << w.says();
}

}  // namespace
}  // namespace ft::test
