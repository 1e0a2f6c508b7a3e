// Files of a run that cannot be written: a row is whole or absent, the run goes on, and the loss is named.
#include "engine/train/reports/best_effort.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>

#include "engine/core/error.h"
#include "engine/train/reports/json_log.h"
#include "engine/train/reports/run_file.h"
#include "tests/engine/train/sample_run.h"

namespace {

int synced_data = 0, synced_all = 0;  // calls of this process

}  // namespace

int fdatasync(int fd) {
  ++synced_data;
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}
int fsync(int fd) {
  ++synced_all;
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace ft {
namespace {

class Heard final : public Report {
 public:
  void warning(const std::string& text) override { warnings.push_back(text); }
  std::vector<std::string> warnings;
};

// While it exists, files of this process have at most `bytes`.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : before_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &limit_);
    const rlimit small{bytes, limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &limit_);
    std::signal(SIGXFSZ, before_);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;

 private:
  rlimit limit_{};
  void (*before_)(int);
};

TEST(RunFile, HasNoPartOfAPieceThatDidNotFit) {
  const TestFolder folder;
  RunFile file(folder.file("log"), false);
  file.append("123456\n");
  {
    const SmallFiles limit(10);
    EXPECT_THROW(file.append("abcdef\n"), UserError);
    EXPECT_EQ(text_of(folder.file("log")), "123456\n");
  }
  file.append("789\n");
  EXPECT_EQ(text_of(folder.file("log")), "123456\n789\n");
}

// A log needs its bytes and its size on the disk, and no time: fsync would write the file's entry too.
TEST(RunFile, SyncsNoTimes) {
  const TestFolder folder;
  RunFile file(folder.file("log"), false);
  file.append("row\n");
  const int data = synced_data, all = synced_all;
  file.sync();
  EXPECT_EQ(synced_data, data + 1);
  EXPECT_EQ(synced_all, all);
}

TEST(RunFile, IsNotWrittenThroughALink) {
  const TestFolder folder;
  std::ofstream(folder.file("target")) << "kept\n";
  std::filesystem::create_symlink("target", folder.file("log"));
  for (const bool keep : {false, true}) {
    try {
      RunFile(folder.file("log"), keep);
      ADD_FAILURE() << "a link was opened";
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::storage);
      EXPECT_NE(std::string(e.what()).find("log: is a symbolic link"), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(lines_of(folder.file("target")), std::vector<std::string>{"kept"});
}

TEST(RunFile, IsNotWrittenIntoALinkedFolder) {
  const TestFolder folder;
  std::filesystem::create_directory(folder.file("elsewhere"));
  std::filesystem::create_symlink("elsewhere", folder.file("csv"));
  try {
    RunFile(folder.path(), "csv/log", false);
    ADD_FAILURE() << "a link was followed";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::storage);
    EXPECT_NE(std::string(e.what()).find("csv: is a symbolic link"), std::string::npos) << e.what();
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.file("elsewhere")));
  RunFile(folder.path(), "new/csv/log", false).append("a row\n");
  EXPECT_EQ(lines_of(folder.file("new/csv/log")), std::vector<std::string>{"a row"});
}

TEST(RunFile, NoticesThatItWasRemoved) {
  const TestFolder folder;
  RunFile file(folder.file("log"), false);
  EXPECT_FALSE(file.is_removed());
  std::filesystem::remove(folder.file("log"));
  EXPECT_TRUE(file.is_removed());
  EXPECT_THROW(file.append("row\n"), UserError);
}

TEST(BestEffort, WarnsOnceAndCountsTheLostRows) {
  const TestFolder folder;
  Heard heard;
  BestEffort log(std::make_unique<JsonLog>(folder.file("log.jsonl")), heard);
  log.begin(sample_header());
  log.step(sample_step(1));
  const std::string first = text_of(folder.file("log.jsonl"));
  {
    const SmallFiles limit(first.size() + 20);
    log.step(sample_step(2));
    log.step(sample_step(3));
    log.sync();
  }
  EXPECT_EQ(text_of(folder.file("log.jsonl")), first);
  ASSERT_EQ(heard.warnings.size(), 1u);
  EXPECT_NE(heard.warnings[0].find("log.jsonl: cannot be written: File too large; the run goes on"),
            std::string::npos)
      << heard.warnings[0];
  log.step(sample_step(4));
  log.end(sample_summary(4));
  EXPECT_EQ(lines_of(folder.file("log.jsonl")).size(), 3u);
  ASSERT_EQ(heard.warnings.size(), 2u);
  EXPECT_TRUE(heard.warnings[1].ends_with("writes that were lost: 2")) << heard.warnings[1];
}

TEST(BestEffort, BeginsARemovedLogAgainBeforeACheckpoint) {
  const TestFolder folder;
  Heard heard;
  BestEffort log(std::make_unique<JsonLog>(folder.file("out/log.jsonl")), heard);
  log.begin(sample_header());
  log.step(sample_step(1));
  std::filesystem::remove_all(folder.file("out"));
  log.step(sample_step(2));
  ASSERT_EQ(heard.warnings.size(), 1u);
  EXPECT_NE(heard.warnings[0].find("was removed during the run"), std::string::npos);
  log.sync();
  log.step(sample_step(3));
  EXPECT_EQ(lines_of(folder.file("out/log.jsonl")).size(), 1u);
}

TEST(BestEffort, AFileThatCannotBeOpenedEndsTheRunBeforeItsFirstStep) {
  Heard heard;
  BestEffort log(std::make_unique<JsonLog>("/proc/no/log.jsonl"), heard);
  EXPECT_THROW(log.begin(sample_header()), UserError);
}

}  // namespace
}  // namespace ft
