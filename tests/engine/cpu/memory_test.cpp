// Memory that a process may use: limits of control groups, and of its address space.
#include "engine/cpu/memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <fstream>
#include <limits>

#include "engine/core/error.h"
#include "engine/cpu/cgroup.h"
#include "tests/engine/files/temp_folder.h"

namespace ft::cpu {
namespace {

constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();

struct Groups : testing::Test {
  test::TempFolder folder;
  void put(const std::string& path, const std::string& text) const { folder.write(path, text); }
  std::int64_t left(const std::string& lines) const {
    return memory_left_by_cgroups(folder.write("groups", lines), folder.path());
  }
};

TEST_F(Groups, NoneThatLimitsLeavesAll) {
  EXPECT_EQ(left(""), kNone);
  EXPECT_EQ(left("0::/a\n"), kNone);
  put("memory.max", "max\n");
  put("memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(left("0::/\n4:memory:/\nnonsense\n"), kNone);
}

TEST_F(Groups, TheTightestAlongThePathCounts) {
  put("memory.max", "9000\n");
  put("memory.current", "1000\n");
  put("a/memory.max", "5000\n");
  put("a/memory.current", "2000\n");
  put("a/memory.stat", "anon 500\ninactive_file 1500\nslab 3\n");
  put("a/b/memory.max", "max\n");
  EXPECT_EQ(left("0::/a/b\n"), 4500);
  EXPECT_EQ(left("0::/c\n"), 8000);
  put("a/memory.current", "7000\n");  // above a limit that was lowered
  EXPECT_EQ(left("0::/a/b\n"), 0);
}

TEST_F(Groups, TheFirstVersionsFiles) {
  put("memory/memory.limit_in_bytes", "4000\n");
  put("memory/memory.usage_in_bytes", "3500\n");
  put("memory/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
  EXPECT_EQ(left("5:cpu,memory:/job/17\n0::/\n"), 1000);
  put("memory/job/memory.limit_in_bytes", "700\n");
  EXPECT_EQ(left("5:cpu,memory:/job/17\n"), 700);
}

TEST(Reserve, NamesTheLimitOnAddresses) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  std::int64_t pages = 0;
  ASSERT_TRUE(std::ifstream("/proc/self/statm") >> pages);
  constexpr std::int64_t kRoom = std::int64_t{1} << 29;
  const rlimit low{static_cast<rlim_t>(pages * 4096 + kRoom), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &low), 0);
  std::string message;
  try {
    reserve(2 * kRoom);
  } catch (const UserError& e) {
    message = e.what();
  }
  setrlimit(RLIMIT_AS, &before);
  EXPECT_NE(message.find("of addresses in all (`ulimit -v unlimited`"), std::string::npos) << message;
}

}  // namespace
}  // namespace ft::cpu
