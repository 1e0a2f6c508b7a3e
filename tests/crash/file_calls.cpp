#include "tests/crash/file_calls.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <set>
#include <utility>

namespace ft::test {
namespace {

namespace fs = std::filesystem;
using Registers = user_regs_struct;
using Argument = unsigned long long;

// The place of a call's file among its arguments: an open file, a path, or a path below an open folder.
enum class Named : std::uint8_t { by_file, by_path, below_folder };

struct FileCall {
  long number;
  const char* name;
  Named named;
  int flags = -1;       // argument with the flags of an open; -1: the call always changes something
  bool writes = false;  // the third argument is a number of bytes
};

constexpr std::array kCalls{
    FileCall{SYS_write, "write", Named::by_file, -1, true},
    FileCall{SYS_pwrite64, "pwrite", Named::by_file, -1, true},
    FileCall{SYS_writev, "writev", Named::by_file},
    FileCall{SYS_pwritev, "pwritev", Named::by_file},
    FileCall{SYS_copy_file_range, "copy_file_range", Named::by_file},
    FileCall{SYS_sendfile, "sendfile", Named::by_file},
    FileCall{SYS_ftruncate, "ftruncate", Named::by_file},
    FileCall{SYS_fallocate, "fallocate", Named::by_file},
    FileCall{SYS_fsync, "fsync", Named::by_file},
    FileCall{SYS_fdatasync, "fdatasync", Named::by_file},
    FileCall{SYS_open, "open", Named::by_path, 1},
    FileCall{SYS_creat, "creat", Named::by_path},
    FileCall{SYS_truncate, "truncate", Named::by_path},
    FileCall{SYS_rename, "rename", Named::by_path},
    FileCall{SYS_unlink, "unlink", Named::by_path},
    FileCall{SYS_mkdir, "mkdir", Named::by_path},
    FileCall{SYS_rmdir, "rmdir", Named::by_path},
    FileCall{SYS_openat, "openat", Named::below_folder, 2},
    FileCall{SYS_renameat, "renameat", Named::below_folder},
    FileCall{SYS_renameat2, "renameat2", Named::below_folder},
    FileCall{SYS_unlinkat, "unlinkat", Named::below_folder},
    FileCall{SYS_mkdirat, "mkdirat", Named::below_folder},
    FileCall{SYS_linkat, "linkat", Named::below_folder},
    FileCall{SYS_symlinkat, "symlinkat", Named::below_folder},
};

const FileCall* find_call(long number) {
  for (const FileCall& call : kCalls)
    if (call.number == number) return &call;
  return nullptr;
}

// Makes the kernel stop this process and its children at the calls of kCalls.
void stop_at_file_calls() {
  std::vector<sock_filter> code{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offsetof(seccomp_data, nr)))};
  for (const FileCall& call : kCalls) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call.number), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(97);
}

pid_t start_traced(const std::vector<std::string>& words, const fs::path& folder) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  std::vector<std::string> copy = words;
  std::vector<char*> argv;
  for (std::string& word : copy) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (chdir(folder.c_str()) != 0) _exit(99);
  for (const auto& [name, number] : {std::pair{"stdout", STDOUT_FILENO}, {"stderr", STDERR_FILENO}})
    if (dup2(open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), number) < 0) _exit(99);
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(kNotTraced);
  raise(SIGSTOP);
  stop_at_file_calls();
  execv(argv[0], argv.data());
  _exit(98);
}

Argument argument(const Registers& r, int i) {
  return std::array<Argument, 6>{r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9}.at(static_cast<std::size_t>(i));
}

std::string text_at(pid_t thread, Argument address) {
  const int memory = open(("/proc/" + std::to_string(thread) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  std::array<char, 4096> text{};
  const ssize_t n = pread(memory, text.data(), text.size() - 1, static_cast<off_t>(address));
  close(memory);
  return n > 0 ? std::string(text.data()) : "";
}

std::string file_of(pid_t thread, Argument descriptor) {
  std::error_code none;
  const std::string link =
      "/proc/" + std::to_string(thread) + "/fd/" + std::to_string(static_cast<int>(descriptor));
  return fs::read_symlink(link, none).string();
}

// Traces one command.
class Tracer {
 public:
  Tracer(pid_t root, const fs::path& folder, const Trouble& trouble)
      : root_(root), folder_(fs::canonical(folder)), trouble_(trouble) {}

  Outcome run() {
    int status = 0;
    waitpid(root_, &status, 0);
    if (!WIFSTOPPED(status)) {
      ended(root_, status);
      return outcome_;
    }
    threads_.insert(root_);
    ptrace(PTRACE_SETOPTIONS, root_, nullptr,
           PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
               PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
    go_on(root_, 0);
    for (pid_t thread; (thread = waitpid(-1, &status, __WALL)) > 0;)
      if (WIFSTOPPED(status))
        stopped(thread, WSTOPSIG(status), status >> 16);
      else
        ended(thread, status);
    return outcome_;
  }

 private:
  static void go_on(pid_t thread, int signal) {
    ptrace(PTRACE_CONT, thread, nullptr, static_cast<long>(signal));
  }
  void kill_all() {
    for (const pid_t thread : threads_) kill(thread, SIGKILL);
  }

  void ended(pid_t thread, int status) {
    threads_.erase(thread);
    if (thread == root_) outcome_.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  void stopped(pid_t thread, int signal, int event) {
    const bool is_new = threads_.insert(thread).second;
    if (signal == (SIGTRAP | 0x80)) return kill_all();  // half of a write is done
    if (event == PTRACE_EVENT_SECCOMP) return at_call(thread);
    const bool is_ours = event != 0 || signal == SIGTRAP || (is_new && signal == SIGSTOP);
    go_on(thread, is_ours ? 0 : signal);
  }

  // Returns the call's file if it is below the folder and not the command's output; otherwise an empty text.
  std::string place(pid_t thread, const FileCall& call, const Registers& r) const {
    fs::path path;
    if (call.named == Named::by_file) path = file_of(thread, argument(r, 0));
    if (call.named == Named::by_path) path = text_at(thread, argument(r, 0));
    if (call.named == Named::below_folder) {
      path = text_at(thread, argument(r, 1));
      const auto base = static_cast<int>(argument(r, 0));
      if (path.is_relative() && base != AT_FDCWD) path = fs::path(file_of(thread, argument(r, 0))) / path;
    }
    if (path.is_relative()) path = folder_ / path;
    const std::string inside = path.lexically_normal().lexically_relative(folder_).string();
    const bool out = inside.empty() || inside.starts_with("..") || inside == "stdout" || inside == "stderr";
    return out ? "" : inside;
  }

  void at_call(pid_t thread) {
    Registers r{};
    ptrace(PTRACE_GETREGS, thread, nullptr, &r);
    const FileCall* call = find_call(static_cast<long>(r.orig_rax));
    const bool changes = call && (call->flags < 0 ||
                                  (argument(r, call->flags) & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0);
    const std::string file = changes ? place(thread, *call, r) : "";
    if (file.empty() || ++outcome_.calls != trouble_.at) return go_on(thread, 0);
    outcome_.call = std::string(call->name) + " " + file;
    make_trouble(thread, *call, r);
  }

  void make_trouble(pid_t thread, const FileCall& call, Registers& r) {
    switch (trouble_.fault) {
      case Fault::none:
        break;
      case Fault::kill:
        return kill_all();
      case Fault::half_write:
        if (!call.writes) return kill_all();
        r.rdx /= 2;
        ptrace(PTRACE_SETREGS, thread, nullptr, &r);
        ptrace(PTRACE_SYSCALL, thread, nullptr, 0);
        return;
      case Fault::error:
        r.orig_rax = static_cast<Argument>(-1);  // the call is not made
        r.rax = static_cast<Argument>(-static_cast<long>(trouble_.number));
        ptrace(PTRACE_SETREGS, thread, nullptr, &r);
        break;
      case Fault::short_write:
        if (call.writes && r.rdx > 1) r.rdx /= 2;
        ptrace(PTRACE_SETREGS, thread, nullptr, &r);
        break;
      case Fault::signal:
        kill(root_, trouble_.number);
        break;
    }
    go_on(thread, 0);
  }

  pid_t root_;
  fs::path folder_;
  Trouble trouble_;
  std::set<pid_t> threads_;
  Outcome outcome_;
};

}  // namespace

Outcome run_in_trouble(const std::vector<std::string>& words, const fs::path& folder,
                       const Trouble& trouble) {
  return Tracer(start_traced(words, folder), folder, trouble).run();
}

}  // namespace ft::test
