// A substitute for ssh in tests, and a search for processes that were left behind.
#pragma once
#include "tests/life/program.h"

namespace ft::test {

// A folder first in PATH with an ssh that writes down its arguments and then runs `body`, a shell script.
class FakeSsh {
 public:
  FakeSsh(const Workplace& w, const std::string& body) : words_(w / "ssh.words"), path_(getenv("PATH")) {
    fs::create_directory(w / "bin");
    std::ofstream(w / "bin/ssh") << "#!/bin/sh\nprintf '%s\\n' ssh \"$@\" >>'" << words_.string() << "'\n"
                                 << body;
    fs::permissions(w / "bin/ssh", fs::perms::owner_all);
    setenv("PATH", ((w / "bin").string() + ":" + path_).c_str(), 1);
  }
  ~FakeSsh() { setenv("PATH", path_.c_str(), 1); }
  FakeSsh(const FakeSsh&) = delete;
  FakeSsh& operator=(const FakeSsh&) = delete;
  std::string words() const { return contents(words_); }

 private:
  fs::path words_;
  std::string path_;
};

// Returns the processes that work in a folder, except this one.
inline std::vector<pid_t> processes_in(const fs::path& folder) {
  std::vector<pid_t> all;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::error_code error;
    const fs::path at = fs::read_symlink(entry.path() / "cwd", error);
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (!error && pid > 0 && pid != getpid() && at == fs::canonical(folder)) all.push_back(pid);
  }
  return all;
}

inline bool nobody_left(const fs::path& folder) {
  return comes_to_hold(30, [&] { return processes_in(folder).empty(); });
}

// Returns the process of a rank, by its environment variable; 0 if there is none.
inline pid_t process_of_rank(const fs::path& folder, int rank) {
  const std::string wanted = std::string(1, '\0') + "RANK=" + std::to_string(rank) + std::string(1, '\0');
  for (const pid_t p : processes_in(folder))
    if (contents("/proc/" + std::to_string(p) + "/environ").find(wanted) != std::string::npos) return p;
  return 0;
}

}  // namespace ft::test
