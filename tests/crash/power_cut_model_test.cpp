// The models of power_cut.h on recordings of small commands: losses that they allow, and losses that they do
// not.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "tests/crash/power_cut.h"
#include "tests/crash/recorder.h"
#include "tests/crash/traced.h"

namespace ft::test {
namespace {

namespace fs = std::filesystem;

class Recorded : public testing::Test {
 protected:
  Recorded() {
    char name[] = "/tmp/ft-power-XXXXXX";
    folder_ = mkdtemp(name);
    folder_ /= "disk";
    fs::create_directory(folder_);
  }
  ~Recorded() override { fs::remove_all(folder_.parent_path()); }

  // Records a shell's script; false: this system has no ptrace for tests.
  bool script(const std::string& text) {
    recording_ = record({"/bin/sh", "-c", text}, folder_);
    if (recording_.exit == kNotTraced) return false;
    EXPECT_EQ(recording_.exit, 0);
    EXPECT_EQ(recording_.missed, "");
    Tree found = read_tree(folder_);
    found.erase("stdout");
    found.erase("stderr");
    EXPECT_TRUE(tree_of(disk_after_all(recording_, recording_.steps.size())) == found);
    return true;
  }
  // Returns all contents that a file may have after a cut at the end of the script; "-": the file is missing.
  std::set<std::string> may_be(const std::string& file, FileSystem system) const {
    std::set<std::string> all;
    for (PowerCut& cut : power_cuts(recording_, 3000, 7)) {
      if (cut.at != recording_.steps.size() || cut.system != system) continue;
      const Tree tree = tree_of(disk_after(recording_, cut));
      all.insert(tree.contains(file) ? tree.at(file).bytes : "-");
    }
    return all;
  }

  fs::path folder_;
  Recording recording_;
};

using Texts = std::set<std::string>;

TEST_F(Recorded, AFileWithoutASyncMayBeLostOrEmpty) {
  if (!script("printf new > a")) GTEST_SKIP();
  EXPECT_EQ(may_be("a", FileSystem::loose), (Texts{"-", "", "new"}));
  EXPECT_EQ(may_be("a", FileSystem::ordered), (Texts{"-", "", "new"}));
}

TEST_F(Recorded, ASyncedFileKeepsItsBytesAndOnAJournalItsName) {
  if (!script("printf new > a; sync a")) GTEST_SKIP();
  EXPECT_EQ(may_be("a", FileSystem::loose), (Texts{"-", "new"}));
  EXPECT_EQ(may_be("a", FileSystem::ordered), (Texts{"new"}));
}

TEST_F(Recorded, ARenameWithoutASyncOfTheFileMayLeaveAnEmptyOne) {
  std::ofstream(folder_ / "a") << "old";
  if (!script("printf new > b; mv b a; sync .")) GTEST_SKIP();
  EXPECT_EQ(may_be("a", FileSystem::loose), (Texts{"", "new"}));
  EXPECT_EQ(may_be("a", FileSystem::ordered), (Texts{"", "new"}));
}

TEST_F(Recorded, FileRenameFolderSyncedInOrderLoseNothing) {
  std::ofstream(folder_ / "a") << "old";
  if (!script("printf new > b; sync b; mv b a; sync .")) GTEST_SKIP();
  EXPECT_EQ(may_be("a", FileSystem::loose), (Texts{"new"}));
  EXPECT_EQ(may_be("a", FileSystem::ordered), (Texts{"new"}));
  for (const PowerCut& cut : power_cuts(recording_, 500, 3)) {
    const Tree tree = tree_of(disk_after(recording_, cut));
    EXPECT_TRUE(tree.at("a").bytes == "old" || tree.at("a").bytes == "new") << cut.text;
  }
}

TEST_F(Recorded, ARenameBelongsToTheFolderOfItsNewName) {
  fs::create_directory(folder_ / "from");
  fs::create_directory(folder_ / "to");
  std::ofstream(folder_ / "from/a") << "old";
  if (!script("mv from/a to/a; sync from")) GTEST_SKIP();
  EXPECT_EQ(may_be("to/a", FileSystem::loose), (Texts{"-", "old"}));
  if (!script("mv to/a from/a; sync from")) GTEST_SKIP();
  EXPECT_EQ(may_be("from/a", FileSystem::loose), (Texts{"old"}));
  EXPECT_EQ(may_be("to/a", FileSystem::loose), (Texts{"-"}));
}

TEST_F(Recorded, AFolderWithoutASyncIsLostWithItsFiles) {
  if (!script("mkdir d; printf new > d/a; sync d/a; sync d")) GTEST_SKIP();
  EXPECT_EQ(may_be("d/a", FileSystem::loose), (Texts{"-", "new"}));
}

TEST_F(Recorded, NamesReachAJournalInTheirOrder) {
  if (!script("mkdir a; mkdir b; mkdir c")) GTEST_SKIP();
  Texts ordered, loose;
  for (const PowerCut& cut : power_cuts(recording_, 3000, 5)) {
    std::string names;
    for (const auto& [path, item] : tree_of(disk_after(recording_, cut))) names += path;
    (cut.system == FileSystem::ordered ? ordered : loose).insert(names);
  }
  EXPECT_EQ(ordered, (Texts{"", "a", "ab", "abc"}));
  EXPECT_EQ(loose, (Texts{"", "a", "b", "c", "ab", "ac", "bc", "abc"}));
}

TEST_F(Recorded, AWriteIsTornAtSectorsOrPages) {
  std::ofstream(folder_ / "a") << std::string(12'288, 'o');
  if (!script(
          "head -c 12288 /dev/zero | tr '\\0' n | dd of=a bs=12288 iflag=fullblock conv=notrunc status=none"))
    GTEST_SKIP();
  std::size_t mixed = 0;
  for (const PowerCut& cut : power_cuts(recording_, 2000, 9)) {
    const std::string a = tree_of(disk_after(recording_, cut)).at("a").bytes;
    ASSERT_EQ(a.size(), 12'288u);
    const std::size_t unit = cut.system == FileSystem::loose ? kSector : kPage;
    for (std::size_t i = 0; i < a.size(); i += unit)
      ASSERT_EQ(a.substr(i, unit), std::string(unit, a[i])) << cut.text;
    mixed += a.find('n') != a.npos && a.find('o') != a.npos;
  }
  EXPECT_GT(mixed, 100u);
}

TEST_F(Recorded, LinksExchangesAndTruncationsAreRecorded) {
  if (!script("printf 1 > a; ln a b; ln -s a c; printf 2 >> b; mkdir d; mv a d/a; truncate -s 1 b; rm c; "
              "cp b e; printf 345 > e; : > b; mv -T d f; rmdir f || rm -r f"))
    GTEST_SKIP();
  EXPECT_GT(recording_.steps.size(), 12u);
}

TEST_F(Recorded, TheCommandsWordsAreSteps) {
  if (!script("echo begun; printf 1 > a; echo done >&2")) GTEST_SKIP();
  EXPECT_EQ(recording_.steps.front().bytes, "begun\n");
  EXPECT_EQ(recording_.steps.back().bytes, "done\n");
}

}  // namespace
}  // namespace ft::test
