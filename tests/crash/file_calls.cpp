#include "tests/crash/file_calls.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>

namespace ft::test {
namespace {

namespace fs = std::filesystem;

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

constexpr auto kNumbers = [] {
  std::array<long, kCalls.size()> numbers{};
  for (std::size_t i = 0; i < kCalls.size(); ++i) numbers[i] = kCalls[i].number;
  return numbers;
}();

const FileCall* find_call(long number) {
  for (const FileCall& call : kCalls)
    if (call.number == number) return &call;
  return nullptr;
}

class TroubleMaker final : public Traced {
 public:
  TroubleMaker(const fs::path& folder, const Trouble& trouble)
      : folder_(fs::canonical(folder)), trouble_(trouble) {}

  Outcome meet(const std::vector<std::string>& words) {
    outcome_.exit = run(words, folder_, kNumbers);
    return outcome_;
  }

 private:
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

  void before_call(pid_t thread, Registers& r) override {
    const FileCall* call = find_call(static_cast<long>(r.orig_rax));
    const bool changes = call && (call->flags < 0 ||
                                  (argument(r, call->flags) & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) != 0);
    const std::string file = changes ? place(thread, *call, r) : "";
    if (file.empty() || ++outcome_.calls != trouble_.at) return go_on(thread);
    outcome_.call = std::string(call->name) + " " + file;
    make_trouble(thread, *call, r);
  }
  void after_call(pid_t) override { kill_all(); }  // half of a write is done

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
        return stop_after_call(thread);
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
        kill(root(), trouble_.number);
        break;
    }
    go_on(thread);
  }

  fs::path folder_;
  Trouble trouble_;
  Outcome outcome_;
};

}  // namespace

Outcome run_in_trouble(const std::vector<std::string>& words, const fs::path& folder,
                       const Trouble& trouble) {
  return TroubleMaker(folder, trouble).meet(words);
}

}  // namespace ft::test
