// Files: pipes and folders are refused without waiting, and writing leaves a complete file or nothing.
#include "engine/files/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <thread>

#include "engine/core/environment.h"
#include "engine/files/folder_lock.h"
#include "engine/files/links.h"
#include "engine/files/room.h"
#include "tests/engine/files/temp_folder.h"

namespace ft {
namespace {

using test::error_of;
using test::slurp;
using test::TempFolder;

TEST(InputFile, ReadsRanges) {
  const TempFolder folder;
  const InputFile file(folder.write("a", "0123456789"));
  char out[4] = {};
  file.read(3, out, 3);
  EXPECT_STREQ(out, "345");
  EXPECT_EQ(file.size(), 10);
  EXPECT_EQ(error_of([&] { file.read(8, out, 3); }),
            "3 " + folder / "a" + ": ends at byte 10 of 10; it shrank while it was being read");
}

TEST(InputFile, RefusesPipesFoldersAndDevices) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { InputFile(folder / "pipe"); }),
            "3 " + folder / "pipe" + ": is a pipe, not a regular file");
  EXPECT_EQ(error_of([&] { InputFile(folder.path(), Exit::checkpoint); }),
            "4 " + folder.path() + ": is a folder, not a regular file");
  EXPECT_EQ(error_of([] { InputFile("/dev/zero"); }), "3 /dev/zero: is a device, not a regular file");
  EXPECT_EQ(error_of([&] { InputFile(folder / "none\x1b"); }),
            "3 " + folder / "none\\x1b: cannot be read: No such file or directory");
  ASSERT_EQ(::symlink("loop", (folder / "loop").c_str()), 0);
  EXPECT_EQ(error_of([&] { InputFile(folder / "loop"); }),
            "3 " + folder / "loop: cannot be read: Too many levels of symbolic links");
  EXPECT_EQ(error_of([&] { read_file(folder.write("b", "abc"), 2); }),
            "3 " + folder / "b: is 3 bytes; at most 2 are read");
}

TEST(Links, BelowAFolderAreRefused) {
  const TempFolder folder;
  ASSERT_EQ(::mkdir((folder / "real").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("real", (folder / "link").c_str()), 0);
  ASSERT_EQ(::symlink("nowhere", (folder / "real/dangling").c_str()), 0);
  refuse_links(folder.path(), "none/of/these/is/there");
  refuse_links(folder.path(), "real/file");
  refuse_links(folder / "link", "file");  // the folder itself is the user's choice
  const std::string end = ": is a symbolic link; ft writes through no link in an output folder; remove it";
  EXPECT_EQ(error_of([&] { refuse_links(folder.path(), "link"); }), "6 " + folder / "link" + end);
  EXPECT_EQ(error_of([&] { refuse_links(folder.path(), "link/file"); }), "6 " + folder / "link" + end);
  EXPECT_EQ(error_of([&] { refuse_links(folder.path(), "real/dangling"); }),
            "6 " + folder / "real/dangling" + end);
}

TEST(OpenBelow, MakesFoldersAndFollowsNoLink) {
  const TempFolder folder;
  const TempFolder elsewhere;
  constexpr int kNew = O_WRONLY | O_CREAT;
  const auto open = [&](const std::string& name, int ways) {
    return error_of([&] { ::close(open_below(folder.path(), name, ways)); });
  };
  EXPECT_EQ(open("a/b/file", kNew), "no error");
  EXPECT_TRUE(std::filesystem::is_regular_file(folder / "a/b/file"));
  EXPECT_EQ(open("a//b/file", O_RDONLY), "no error");
  EXPECT_EQ(open("a/c/file", O_RDONLY), "6 " + folder / "a/c: cannot be read: No such file or directory");
  EXPECT_EQ(open("a/b/file/x", kNew), "6 " + folder / "a/b/file/x: cannot be written: Not a directory");
  elsewhere.write("file", "kept");
  ASSERT_EQ(::symlink(elsewhere.path().c_str(), (folder / "a/away").c_str()), 0);
  ASSERT_EQ(::symlink((elsewhere / "file").c_str(), (folder / "a/link").c_str()), 0);
  const std::string end = ": is a symbolic link; ft writes through no link in an output folder; remove it";
  for (const int ways : {O_RDONLY, kNew, kNew | O_TRUNC}) {
    EXPECT_EQ(open("a/away/file", ways), "6 " + folder / "a/away" + end);
    EXPECT_EQ(open("a/away/new/file", ways), "6 " + folder / "a/away" + end);
    EXPECT_EQ(open("a/link", ways), "6 " + folder / "a/link" + end);
  }
  EXPECT_EQ(slurp(elsewhere / "file"), "kept");
  EXPECT_EQ(elsewhere.entries(), 1u);
  ::close(open_below(folder / "a/away", "file", O_RDONLY));  // the folder itself is the user's choice
}

// Somebody exchanges a folder and a link all the time: a file is opened in the folder or not at all.
TEST(OpenBelow, IsNotLedAwayByAChangingLink) {
  const TempFolder folder;
  const TempFolder elsewhere;
  ASSERT_EQ(::mkdir((folder / "place").c_str(), 0700), 0);
  ASSERT_EQ(::symlink(elsewhere.path().c_str(), (folder / "away").c_str()), 0);
  std::atomic<bool> stop{false};
  std::thread somebody([&] {
    while (!stop)
      ::renameat2(AT_FDCWD, (folder / "place").c_str(), AT_FDCWD, (folder / "away").c_str(), RENAME_EXCHANGE);
  });
  int opened = 0;
  for (int i = 0; i < 2000; ++i)
    opened +=
        error_of([&] { ::close(open_below(folder.path(), "place/file", O_WRONLY | O_CREAT)); }) == "no error";
  stop = true;
  somebody.join();
  EXPECT_GT(opened, 0);
  EXPECT_EQ(elsewhere.entries(), 0u);
}

TEST(WriteBelow, ReplacesFilesMakesFoldersAndFollowsNoLink) {
  const TempFolder folder;
  const TempFolder elsewhere;
  const auto write = [&](const std::string& name) {
    return error_of([&] { write_below(folder.path(), name, "new"); });
  };
  EXPECT_EQ(write("a/b/file"), "no error");
  EXPECT_EQ(slurp(folder / "a/b/file"), "new");
  folder.write("a/b/file", "old");
  folder.write("a/b/.file.tmp-ft0123456789", "of a killed process");
  EXPECT_EQ(write("a/b/file"), "no error");
  EXPECT_EQ(slurp(folder / "a/b/file"), "new");
  EXPECT_FALSE(std::filesystem::exists(folder / "a/b/.file.tmp-ft0123456789"));
  EXPECT_EQ(write("a/b/file/x"), "6 " + folder / "a/b/file/x: cannot be written: Not a directory");
  elsewhere.write("file", "kept");
  ASSERT_EQ(::symlink(elsewhere.path().c_str(), (folder / "a/away").c_str()), 0);
  ASSERT_EQ(::symlink((elsewhere / "file").c_str(), (folder / "a/link").c_str()), 0);
  const std::string end = ": is a symbolic link; ft writes through no link in an output folder; remove it";
  EXPECT_EQ(write("a/away/file"), "6 " + folder / "a/away" + end);
  EXPECT_EQ(write("a/link"), "6 " + folder / "a/link" + end);
  EXPECT_EQ(slurp(elsewhere / "file"), "kept");
  EXPECT_EQ(elsewhere.entries(), 1u);
}

TEST(AtomicFile, ReplacesALinkAndLeavesItsTarget) {
  const TempFolder folder;
  const std::string target = folder.write("target", "kept"), link = folder / "link";
  ASSERT_EQ(::symlink(target.c_str(), link.c_str()), 0);
  write_file(link, "new");
  EXPECT_EQ(slurp(target), "kept");
  EXPECT_EQ(slurp(link), "new");
}

TEST(AtomicFile, AppearsCompleteOrNotAtAll) {
  const TempFolder folder;
  const std::string path = folder.write("a", "old");
  {
    AtomicFile file(path);
    file.write("new");
    EXPECT_EQ(slurp(path), "old");
  }
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(folder.entries(), 1u);
  write_file(path, "new");
  EXPECT_EQ(slurp(path), "new");
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_EQ(error_of([&] { write_file(folder / "no/such/a", "x"); }),
            "6 " + folder / "no/such/a: cannot be written: No such file or directory");
  std::filesystem::create_directory(folder / "d");
  EXPECT_EQ(error_of([&] { write_file(folder / "d", "x"); }),
            "6 " + folder / "d: cannot be written: Is a directory");
  EXPECT_EQ(folder.entries(), 2u);
}

// A limit on the file size simulates a full disk.
TEST(AtomicFile, FullDiskLeavesTheOldFile) {
  const TempFolder folder;
  const std::string path = folder.write("a", "old");
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string says = error_of([&] { write_file(path, std::string(1000, 'x')); });
    ::_exit(says == "6 " + path + ": cannot be written: File too large" ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(Paths, ANameStaysInItsFolder) {
  for (const char* good : {"a.safetensors", "sub/a.safetensors", "..a", "a..b"})
    EXPECT_NO_THROW(require_inside(good, "i.json"));
  for (const char* bad :
       {"", "/etc/passwd", "../a", "a/../b", "a/..", "..", ".", "a//b", "a/", "./a", "a\nb"})
    EXPECT_EQ(error_of([&] { require_inside(bad, "x/i.json"); }),
              "3 x/i.json: names the file \"" + printable(bad) +
                  "\"; a name must stay in its folder, as in \"model-00001-of-00002.safetensors\"");
  EXPECT_NE(error_of([] { require_inside(std::string("a\0b", 3), "i.json"); }), "no error");
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(folder_of("a/b"), "a");
  EXPECT_EQ(folder_of("/b"), "/");
  EXPECT_EQ(folder_of("b"), ".");
}

TEST(Paths, ATildeIsTheHomeFolder) {
  const std::string before = variable("HOME");
  set_variable("HOME", "/home/ada");
  EXPECT_EQ(home_expanded("~"), "/home/ada");
  EXPECT_EQ(home_expanded("~/run/1"), "/home/ada/run/1");
  for (const char* other : {"", "a/~", "~bob", "./~/a", "a~"}) EXPECT_EQ(home_expanded(other), other);
  set_variable("HOME", before);
}

TEST(FolderLock, IsOfOneAtATime) {
  const TempFolder folder;
  FolderLock second;
  {
    FolderLock first;
    EXPECT_TRUE(first.take(folder.path()));
    EXPECT_TRUE(first.taken());
    EXPECT_FALSE(second.take(folder.path()));
    EXPECT_FALSE(second.taken());
  }
  EXPECT_TRUE(second.take(folder.path()));
  EXPECT_EQ(folder.entries(), 0u);
}

TEST(Room, IsThatOfTheDisk) {
  const TempFolder folder;
  const auto there = free_bytes(folder / "not/yet/there");
  ASSERT_TRUE(there);
  EXPECT_NO_THROW(require_room(folder.path(), 1, "a"));
  EXPECT_EQ(
      error_of([&] { require_room(folder.path(), std::int64_t{1} << 60, "checkpoint-5"); }).substr(0, 55),
      "6 checkpoint-5: takes 1152921504606846976 bytes, and th");
}

TEST(AtomicFile, RemovesWhatKilledWritersOfTheSameNameLeft) {
  const TempFolder folder;
  const std::string dead = folder.write(".out.gguf.tmp-ftabcdefghij", "half");
  const std::string other = folder.write(".other.gguf.tmp-ftabcdefghij", "half");
  const AtomicFile living(folder / "out.gguf");
  const std::size_t before = folder.entries();
  write_file(folder / "out.gguf", "whole");
  EXPECT_FALSE(path_exists(dead));
  EXPECT_TRUE(path_exists(other));
  EXPECT_EQ(folder.entries(), before + 1);  // the living writer's file is still there
}

TEST(FolderLock, KnowsThatItsFolderIsGone) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "out");
  FolderLock lock;
  ASSERT_TRUE(lock.take(folder / "out"));
  EXPECT_TRUE(lock.is_of(folder / "out"));
  std::filesystem::rename(folder / "out", folder / "away");
  EXPECT_FALSE(lock.is_of(folder / "out"));
  std::filesystem::create_directory(folder / "out");
  EXPECT_FALSE(lock.is_of(folder / "out"));
  EXPECT_TRUE(lock.take(folder / "out"));
  EXPECT_TRUE(lock.is_of(folder / "out"));
}

// Root may write anywhere: the test takes another user's rights for a moment.
TEST(Room, AFolderThatMayNotBeWrittenIsNamed) {
  const TempFolder folder;
  std::filesystem::create_directory(folder / "theirs");
  ::chmod(folder.path().c_str(), 0755);
  ::chmod((folder / "theirs").c_str(), 0555);
  const uid_t me = ::geteuid();
  ASSERT_TRUE(me != 0 || ::seteuid(65534) == 0);
  const std::string error = error_of([&] { require_writable(folder / "theirs/run", "training.output_dir"); });
  ASSERT_TRUE(me != 0 || ::seteuid(me) == 0);
  EXPECT_EQ(error, "2 training.output_dir: " + folder / "theirs/run" + ": " + folder / "theirs" +
                       " cannot be written: Permission denied; give another folder");
  require_writable(folder / "new/run", "training.output_dir");
  folder.write("file", "x");
  EXPECT_EQ(error_of([&] { require_writable(folder / "file/run", "training.output_dir"); }),
            "2 training.output_dir: " + folder / "file/run" + ": " + folder / "file" + " is not a folder");
}

}  // namespace
}  // namespace ft
