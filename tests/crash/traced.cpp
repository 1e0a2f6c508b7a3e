#include "tests/crash/traced.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <utility>

namespace ft::test {
namespace {

namespace fs = std::filesystem;

// Makes the kernel stop this process and its children at `calls`.
void stop_at(std::span<const long> calls) {
  std::vector<sock_filter> code{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<unsigned>(offsetof(seccomp_data, nr)))};
  for (const long call : calls) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call), 0, 1));
    code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(97);
}

pid_t start_traced(const std::vector<std::string>& words, const fs::path& folder,
                   std::span<const long> calls) {
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
  stop_at(calls);
  execv(argv[0], argv.data());
  _exit(98);
}

}  // namespace

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

int Traced::run(const std::vector<std::string>& words, const fs::path& folder, std::span<const long> calls) {
  root_ = start_traced(words, folder, calls);
  int status = 0;
  waitpid(root_, &status, 0);
  if (!WIFSTOPPED(status)) {
    ended(root_, status);
    return exit_;
  }
  threads_.insert(root_);
  ptrace(PTRACE_SETOPTIONS, root_, nullptr,
         PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
             PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  go_on(root_);
  for (pid_t thread; (thread = waitpid(-1, &status, __WALL)) > 0;)
    if (WIFSTOPPED(status))
      stopped(thread, WSTOPSIG(status), status >> 16);
    else
      ended(thread, status);
  return exit_;
}

void Traced::go_on(pid_t thread, int signal) {
  ptrace(PTRACE_CONT, thread, nullptr, static_cast<long>(signal));
}

void Traced::stop_after_call(pid_t thread) { ptrace(PTRACE_SYSCALL, thread, nullptr, 0); }

std::optional<long long> Traced::finished_call(pid_t thread) {
  stop_after_call(thread);
  int status = 0;
  if (waitpid(thread, &status, __WALL) != thread) return std::nullopt;
  if (!WIFSTOPPED(status)) return ended(thread, status), std::nullopt;
  Registers r{};
  ptrace(PTRACE_GETREGS, thread, nullptr, &r);
  return static_cast<long long>(r.rax);
}

void Traced::kill_all() {
  for (const pid_t thread : threads_) kill(thread, SIGKILL);
}

void Traced::ended(pid_t thread, int status) {
  threads_.erase(thread);
  if (thread == root_) exit_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Traced::stopped(pid_t thread, int signal, int event) {
  const bool is_new = threads_.insert(thread).second;
  if (signal == (SIGTRAP | 0x80)) return after_call(thread);
  if (event == PTRACE_EVENT_SECCOMP) {
    Registers r{};
    ptrace(PTRACE_GETREGS, thread, nullptr, &r);
    return before_call(thread, r);
  }
  const bool is_ours = event != 0 || signal == SIGTRAP || (is_new && signal == SIGSTOP);
  go_on(thread, is_ours ? 0 : signal);
}

}  // namespace ft::test
