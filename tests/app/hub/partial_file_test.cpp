// A part that one process writes, or two where locks do not exclude.
#include "app/hub/partial_file.h"

#include <gtest/gtest.h>

#include "tests/app/hub/hub_place.h"

namespace ft::hub {
namespace {

namespace fs = std::filesystem;
using test::error_of;
using test::Scratch;
using test::text_of;

struct PartialFiles : testing::Test {
  std::string refused(PartialFile& file) {
    return error_of(Exit::storage, [&] { file.commit(complete); });
  }
  Scratch scratch;
  const fs::path part = scratch.folder() / "hash.incomplete", complete = scratch.folder() / "hash";
};

TEST_F(PartialFiles, GetsItsNameWhenItIsComplete) {
  PartialFile file(part);
  file.append("contents");
  EXPECT_FALSE(fs::exists(complete));
  file.commit(complete);
  EXPECT_EQ(text_of(complete), "contents");
  EXPECT_FALSE(fs::exists(part));
}

TEST_F(PartialFiles, TheSecondOfTwoFindsTheFileComplete) {
  PartialFile one(part), two(part);
  one.append("contents");
  two.append("contents");
  one.commit(complete);
  two.commit(complete);
  EXPECT_EQ(text_of(complete), "contents");
}

TEST_F(PartialFiles, AFileOfAnotherSizeIsNotTheSame) {
  PartialFile one(part), two(part);
  one.append("contents");
  two.append("contents");
  one.commit(complete);
  fs::remove(complete);
  std::ofstream(complete) << "other";
  EXPECT_EQ(refused(two), part.string() + ": another process writes it too; run this again");
}

TEST_F(PartialFiles, ARestartLeavesWhatAnotherHasNamed) {
  PartialFile one(part), two(part);
  one.append("contents");
  one.commit(complete);
  two.restart();
  EXPECT_EQ(two.size(), 0);
  two.append("con");
  EXPECT_EQ(text_of(complete), "contents");
}

TEST_F(PartialFiles, ARestartLeavesWhatAnotherWrites) {
  PartialFile one(part);
  one.append("con");
  PartialFile two(part);
  two.restart();
  one.append("tents");
  two.append("other");
  EXPECT_EQ(refused(one), part.string() + ": another process writes it too; run this again");
  two.commit(complete);
  EXPECT_EQ(text_of(complete), "other");
}

}  // namespace
}  // namespace ft::hub
