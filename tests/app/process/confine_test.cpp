// Confined processes: each test forks, so that the test program itself stays free.
#include "app/process/confine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>

#include "engine/files/file.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

class Confined : public testing::Test {
 protected:
  Confined() : folder_(testing::TempDir() + "ft-confined-" + random_tag()) {
    fs::create_directories(folder_ + "/model");
    fs::create_directories(folder_ + "/blobs");
    for (const char* name : {"model/config.json", "blobs/weights", "blobs/other", "secret"})
      std::ofstream(folder_ + "/" + name) << name;
    fs::create_symlink("../blobs/weights", folder_ + "/model/weights");
    fs::create_symlink("../blobs", folder_ + "/model/folder");
  }
  ~Confined() override { fs::remove_all(folder_); }
  void SetUp() override {
    if (const std::string reason = reason_against_confining(); !reason.empty()) GTEST_SKIP() << reason;
  }

  // Runs a function in a child and returns its result, at most 255; -1 if it was killed.
  static int in_child(const std::function<int()>& work) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        ::_exit(work());
      } catch (const std::exception&) {
        ::_exit(250);
      }
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // Returns 0 if the call succeeded, else errno.
  static int error_of(long result) { return result < 0 ? errno : 0; }
  int opens(const std::string& name, int ways = O_RDONLY) const {
    return error_of(::open((folder_ + "/" + name).c_str(), ways, 0600));
  }
  // Returns the result of `work` in a child that reads only the model and makes calls of a kind.
  int confined(AllowedCalls calls, const std::function<int()>& work) const {
    return in_child([&] {
      confine_files({}, {folder_ + "/model"});
      confine_calls(calls);
      return work();
    });
  }

  const std::string folder_;
};

TEST_F(Confined, ReadsNamedFilesAndTargetsOfTheirLinksOnly) {
  const auto read = [&](const char* name) {
    return confined(AllowedCalls::reading, [&] { return opens(name); });
  };
  EXPECT_EQ(read("model/config.json"), 0);
  EXPECT_EQ(read("model/weights"), 0);            // a link, as in the hub's cache
  EXPECT_EQ(read("model/folder/weights"), 0);     // the same file
  EXPECT_EQ(read("model/folder/other"), EACCES);  // a link to a folder opens none of its files
  EXPECT_EQ(read("blobs/other"), EACCES);
  EXPECT_EQ(read("secret"), EACCES);
  EXPECT_EQ(read("model/../secret"), EACCES);
  EXPECT_EQ(confined(AllowedCalls::reading, [] { return error_of(::open("/etc/passwd", O_RDONLY)); }),
            EACCES);
}

TEST_F(Confined, WritesNothing) {
  const auto writes = [&](const char* name, int ways) {
    return confined(AllowedCalls::reading, [&] { return opens(name, ways); });
  };
  EXPECT_EQ(writes("model/config.json", O_WRONLY), EACCES);
  EXPECT_EQ(writes("model/config.json", O_RDONLY | O_TRUNC), EACCES);
  EXPECT_EQ(writes("model/new", O_WRONLY | O_CREAT), EACCES);
  const std::string from = folder_ + "/model/config.json", to = folder_ + "/model/moved";
  EXPECT_EQ(confined(AllowedCalls::reading, [&] { return error_of(::unlink(from.c_str())); }), EPERM);
  EXPECT_EQ(confined(AllowedCalls::reading, [&] { return error_of(::rename(from.c_str(), to.c_str())); }),
            EPERM);
  EXPECT_EQ(confined(AllowedCalls::reading, [&] { return error_of(::mkdir(to.c_str(), 0700)); }), EPERM);
  EXPECT_TRUE(fs::exists(from));
}

TEST_F(Confined, RunsNoProgramAndNoProcess) {
  for (const AllowedCalls calls : {AllowedCalls::reading, AllowedCalls::serving}) {
    char name[] = "/bin/true";
    char* words[] = {name, nullptr};
    EXPECT_EQ(confined(calls, [&] { return error_of(::execv(name, words)); }), EPERM);
    EXPECT_EQ(confined(calls, [] { return error_of(::syscall(SYS_fork)); }), EPERM);
    EXPECT_EQ(confined(calls, [] { return error_of(::fork()); }), EPERM);  // clone without CLONE_THREAD
    EXPECT_EQ(confined(calls, [] { return error_of(::ptrace(PTRACE_TRACEME, 0, 0, 0)); }), EPERM);
    EXPECT_EQ(confined(calls, [] { return error_of(::kill(::getppid(), 0)); }), EPERM);
    EXPECT_EQ(confined(calls, [] { return error_of(::syscall(SYS_io_uring_setup, 4, nullptr)); }), EPERM);
    EXPECT_EQ(confined(calls, [] { return error_of(::syscall(SYS_bpf, 0, nullptr, 0)); }), EPERM);
    EXPECT_EQ(confined(calls, [] { return error_of(::memfd_create("x", 0)); }), EPERM);
  }
}

// Landlock alone refuses to run a program, without the filter.
TEST_F(Confined, WithoutAFilterRunsNoProgramEither) {
  char name[] = "/bin/true";
  char* words[] = {name, nullptr};
  EXPECT_EQ(in_child([&] {
              confine_files({}, {folder_ + "/model"});
              return error_of(::execv(name, words));
            }),
            EACCES);
}

TEST_F(Confined, ListensBeforeItServesAndConnectsNever) {
  const auto internet = [](int type) { return ::socket(AF_INET, type, 0); };
  EXPECT_EQ(confined(AllowedCalls::reading, [&] { return error_of(internet(SOCK_STREAM)); }), 0);
  EXPECT_EQ(confined(AllowedCalls::serving, [&] { return error_of(internet(SOCK_STREAM)); }), EPERM);
  EXPECT_EQ(confined(AllowedCalls::reading, [] { return error_of(::socket(AF_UNIX, SOCK_STREAM, 0)); }),
            EPERM);
  EXPECT_EQ(confined(AllowedCalls::reading, [&] { return error_of(internet(SOCK_DGRAM)); }), EPERM);
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* to = reinterpret_cast<const sockaddr*>(&loopback);
  EXPECT_EQ(confined(AllowedCalls::reading,
                     [&] { return error_of(::connect(internet(SOCK_STREAM), to, sizeof loopback)); }),
            EPERM);
  EXPECT_EQ(
      confined(AllowedCalls::reading,
               [&] {
                 return error_of(::sendto(internet(SOCK_STREAM), "x", 1, MSG_FASTOPEN, to, sizeof loopback));
               }),
      EPERM);
}

TEST_F(Confined, ServesWithThreadsAndWhatIsOpen) {
  EXPECT_EQ(confined(AllowedCalls::reading,
                     [&] {
                       const int file = ::open((folder_ + "/model/config.json").c_str(), O_RDONLY);
                       confine_calls(AllowedCalls::serving);
                       if (opens("model/config.json") != EPERM) return 1;
                       char byte = 0;
                       if (::pread(file, &byte, 1, 0) != 1 || byte != 'm') return 2;
                       int sum = 0;
                       std::thread([&] { sum = opens("secret"); }).join();
                       return sum == EPERM ? 0 : 3;
                     }),
            0);
}

TEST_F(Confined, AnotherThreadIsConfinedTooAndAbortAborts) {
  EXPECT_EQ(in_child([&] {
              std::atomic<bool> confined{false};
              int error = 0;
              std::thread other([&] {
                while (!confined) std::this_thread::yield();
                error = error_of(::socket(AF_INET, SOCK_STREAM, 0));
              });
              confine_calls(AllowedCalls::serving);
              confined = true;
              other.join();
              return error;
            }),
            EPERM);
  EXPECT_EQ(confined(AllowedCalls::serving, []() -> int { std::abort(); }), -1);
}

}  // namespace
}  // namespace ft
