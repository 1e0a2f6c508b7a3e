#include "app/process/confine.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <span>

#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, int error) {
  throw UserError(Exit::config,
                  str("the process cannot be confined: ", what, ": ", system_error_text(error)));
}

void give_up_privileges() {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("no_new_privs", errno);
}

// Returns the version of Landlock; 0: the kernel has none, or it is switched off.
int landlock_version() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  return version < 0 ? 0 : static_cast<int>(version);
}

// Returns all rights to files that a version of Landlock knows. It refuses each of them that no rule grants.
std::uint64_t rights_of(int version) {
  constexpr std::uint64_t kFirst = (std::uint64_t{LANDLOCK_ACCESS_FS_MAKE_SYM} << 1) - 1;
  constexpr std::uint64_t kRefer = std::uint64_t{1} << 13, kTruncate = std::uint64_t{1} << 14;
  constexpr std::uint64_t kDevices = std::uint64_t{1} << 15;
  return kFirst | (version >= 2 ? kRefer : 0) | (version >= 3 ? kTruncate : 0) |
         (version >= 5 ? kDevices : 0);
}

class Ruleset {
 public:
  explicit Ruleset(int version) {
    landlock_ruleset_attr attributes{};
    attributes.handled_access_fs = rights_of(version);
    fd_ = static_cast<int>(
        ::syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes.handled_access_fs, 0));
    if (fd_ < 0) fail("Landlock", errno);
  }
  ~Ruleset() { ::close(fd_); }
  Ruleset(const Ruleset&) = delete;
  Ruleset& operator=(const Ruleset&) = delete;

  enum class Kinds : std::uint8_t { all, files };
  // Allows reading a file, or a folder and all files below it. A link stands for its target.
  void allow(const std::string& path, Kinds kinds = Kinds::all) const {
    const int file = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    struct stat info {};
    if (file < 0 || ::fstat(file, &info) != 0 || (kinds == Kinds::files && !S_ISREG(info.st_mode))) {
      if (file >= 0) ::close(file);
      return;
    }
    landlock_path_beneath_attr rule{};
    rule.allowed_access =
        LANDLOCK_ACCESS_FS_READ_FILE | (S_ISDIR(info.st_mode) ? LANDLOCK_ACCESS_FS_READ_DIR : 0);
    rule.parent_fd = file;
    const bool added = ::syscall(SYS_landlock_add_rule, fd_, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    const int error = errno;
    ::close(file);
    if (!added) fail(path.c_str(), error);
  }
  void enforce() const {
    if (::syscall(SYS_landlock_restrict_self, fd_, 0) != 0) fail("Landlock", errno);
  }

 private:
  int fd_ = -1;
};

constexpr std::array kAlways{
    // open files and sockets
    SYS_read, SYS_readv, SYS_pread64, SYS_write, SYS_writev, SYS_lseek, SYS_fstat, SYS_newfstatat, SYS_close,
    SYS_fcntl, SYS_flock, SYS_poll, SYS_ppoll, SYS_select, SYS_pselect6, SYS_eventfd2,
    // connections
    SYS_accept, SYS_accept4, SYS_recvfrom, SYS_recvmsg, SYS_sendto, SYS_sendmsg, SYS_shutdown,
    SYS_getsockname, SYS_getpeername, SYS_getsockopt, SYS_setsockopt,
    // memory
    SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_mprotect, SYS_madvise, SYS_membarrier,
    // threads and signals
    SYS_futex, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq, SYS_set_tid_address, SYS_gettid,
    SYS_getpid, SYS_exit, SYS_exit_group, SYS_sched_yield, SYS_sched_getaffinity, SYS_sched_setaffinity,
    SYS_getcpu, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigpending,
    SYS_rt_sigtimedwait, SYS_sigaltstack, SYS_restart_syscall,
    // time and the machine
    SYS_clock_gettime, SYS_clock_getres, SYS_clock_nanosleep, SYS_nanosleep, SYS_gettimeofday, SYS_time,
    SYS_getrandom, SYS_sysinfo, SYS_uname, SYS_getrusage};

// Landlock limits the files that these calls open.
constexpr std::array kReading{
    SYS_open,       SYS_openat,   SYS_stat,       SYS_lstat,      SYS_statx,  SYS_access,   SYS_faccessat,
    SYS_faccessat2, SYS_readlink, SYS_readlinkat, SYS_getdents64, SYS_getcwd, SYS_statfs,   SYS_fstatfs,
    SYS_fadvise64,  SYS_bind,     SYS_listen,     SYS_prlimit64,  SYS_getuid, SYS_geteuid,  SYS_getgid,
    SYS_getegid,    SYS_prctl,    SYS_seccomp,    SYS_pipe2,      SYS_dup,    SYS_signalfd4};

class Filter {
 public:
  Filter() {
    add(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    unless_equal(AUDIT_ARCH_X86_64, SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
    constexpr std::uint32_t kX32 = 0x40000000;  // another ABI, with other numbers
    add(BPF_JMP | BPF_JGE | BPF_K, kX32, 0, 1);
    returns(refused(EPERM));
  }
  void allow(std::span<const int> calls) {
    for (const int call : calls) returns_for(call, SECCOMP_RET_ALLOW);
  }
  // Refuses a call unless the lower half of an argument, masked, has this value. Call it before the rules
  // that allow the call.
  void refuse_unless(int call, int argument, std::uint32_t mask, std::uint32_t value) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 5);
    load_argument(argument);
    add(BPF_ALU | BPF_AND | BPF_K, mask);
    unless_equal(value, refused(EPERM));
    load(offsetof(seccomp_data, nr));
  }
  void refuse_as_missing(int call) { returns_for(call, refused(ENOSYS)); }
  // Allows a call if the lower half of an argument, masked, is one of these values.
  void allow_if(int call, int argument, std::uint32_t mask, std::span<const std::uint32_t> values) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0,
        static_cast<std::uint8_t>(3 + 2 * values.size()));
    load_argument(argument);
    add(BPF_ALU | BPF_AND | BPF_K, mask);
    for (const std::uint32_t value : values) returns_for(static_cast<int>(value), SECCOMP_RET_ALLOW);
    returns(refused(EPERM));
  }
  // Refuses all other calls, in all threads.
  void enforce() {
    returns(refused(EPERM));
    const sock_fprog program{static_cast<unsigned short>(program_.size()), program_.data()};
    if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
      fail("seccomp", errno);
  }

 private:
  static constexpr std::uint32_t refused(int error) {
    return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error);
  }
  void add(int code, std::size_t k, std::uint8_t if_true = 0, std::uint8_t if_false = 0) {
    program_.push_back({static_cast<std::uint16_t>(code), if_true, if_false, static_cast<std::uint32_t>(k)});
  }
  void load(std::size_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
  void load_argument(int argument) {
    load(offsetof(seccomp_data, args) + sizeof(std::uint64_t) * static_cast<std::size_t>(argument));
  }
  void returns(std::uint32_t verdict) { add(BPF_RET | BPF_K, verdict); }
  void returns_for(int value, std::uint32_t verdict) {
    add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(value), 0, 1);
    returns(verdict);
  }
  void unless_equal(std::uint32_t value, std::uint32_t verdict) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    returns(verdict);
  }

  std::vector<sock_filter> program_;
};

}  // namespace

std::string reason_against_confining() {
  utsname name{};
  if (::uname(&name) != 0 || std::string(name.machine) != "x86_64") return "this processor is not x86-64";
  if (landlock_version() == 0)
    return "this kernel has no Landlock (Linux 5.13 with landlock in CONFIG_LSM or lsm=)";
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) return "this kernel has no seccomp";
  return "";
}

void confine_files(const std::vector<std::string>& readable, const std::vector<std::string>& with_links) {
  std::error_code unknown;
  const auto threads = std::distance(fs::directory_iterator("/proc/self/task", unknown), {});
  require(threads <= 1, "files are confined before threads start, which would keep their rights");
  const Ruleset rules(landlock_version());
  for (const std::string& path : readable) rules.allow(path);
  for (const std::string& path : with_links) {
    rules.allow(path);
    std::error_code none;
    for (auto entry = fs::recursive_directory_iterator(path, none); entry != fs::end(entry);
         entry.increment(none))
      if (entry->is_symlink(none)) rules.allow(entry->path().string(), Ruleset::Kinds::files);
  }
  give_up_privileges();
  rules.enforce();
}

void confine_calls(AllowedCalls calls) {
  Filter filter;
  constexpr std::uint32_t kFastOpen = MSG_FASTOPEN;  // connects by sending
  filter.refuse_unless(SYS_sendto, 3, kFastOpen, 0);
  filter.refuse_unless(SYS_sendmsg, 2, kFastOpen, 0);
  filter.allow(kAlways);
  // Makes glibc use clone, whose flags the filter can see.
  filter.refuse_as_missing(SYS_clone3);
  constexpr std::array kThreads{std::uint32_t{CLONE_THREAD}};
  filter.allow_if(SYS_clone, 0, CLONE_THREAD, kThreads);
  constexpr std::array kTerminal{std::uint32_t{TCGETS}, std::uint32_t{TIOCGWINSZ}, std::uint32_t{FIONREAD},
                                 std::uint32_t{FIONBIO}};
  filter.allow_if(SYS_ioctl, 1, ~std::uint32_t{0}, kTerminal);
  const std::array self{static_cast<std::uint32_t>(::getpid())};
  filter.allow_if(SYS_tgkill, 0, ~std::uint32_t{0}, self);  // abort()
  if (calls == AllowedCalls::reading) {
    filter.allow(kReading);
    // TCP only: with UDP a process sends without a connection.
    constexpr std::uint32_t kKinds = 0xf, kTcp = IPPROTO_TCP;
    filter.refuse_unless(SYS_socket, 1, kKinds, SOCK_STREAM);
    filter.refuse_unless(SYS_socket, 2, ~kTcp, 0);
    constexpr std::array kInternet{std::uint32_t{AF_INET}, std::uint32_t{AF_INET6}};
    filter.allow_if(SYS_socket, 0, ~std::uint32_t{0}, kInternet);
  }
  give_up_privileges();
  filter.enforce();
}

}  // namespace ft
