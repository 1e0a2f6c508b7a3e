// Ports and sockets, as the kernel lists them.
#pragma once
#include <array>
#include <set>

#include "engine/core/error.h"
#include "engine/ranks/socket.h"
#include "tests/life/ranks/ssh.h"

namespace ft::test {

// Returns a free port of this machine, below those that the kernel gives to connections.
inline int free_port() {
  for (int port = 20000 + getpid() % 10000;; ++port) {
    try {
      const Socket listener = listen_at({"127.0.0.1", port});
      return port;
    } catch (const UserError&) {  // the port is taken
    }
  }
}

struct TcpSocket {
  std::string inode;
  int port = 0;  // local
  bool listens = false;
};

// Lists the TCP sockets. The kernel's table is read in pieces while other sockets come and go, so a socket
// may be listed twice or not at all.
inline std::vector<TcpSocket> tcp_sockets() {
  std::vector<TcpSocket> all;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines(contents(table));
    std::string line;
    for (std::getline(lines, line); std::getline(lines, line);) {
      // sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode ...
      std::istringstream words(line);
      std::array<std::string, 10> column;
      for (std::string& c : column) words >> c;
      const std::string port = column[1].substr(column[1].find(':') + 1);
      all.push_back({column[9], std::stoi(port, nullptr, 16), column[3] == "0A"});  // TCP_LISTEN
    }
  }
  return all;
}

inline bool somebody_listens_at(int port) {
  const std::vector<TcpSocket> all = tcp_sockets();
  return std::any_of(all.begin(), all.end(), [&](const TcpSocket& s) { return s.listens && s.port == port; });
}

// Returns the inodes of all sockets, TCP's and others, of the processes that work in a folder.
inline std::set<std::string> sockets_of_processes_in(const fs::path& folder) {
  const std::string begin = "socket:[";
  std::set<std::string> all;
  for (const pid_t p : processes_in(folder))
    for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(p) + "/fd")) {
      std::error_code gone;
      const std::string to = fs::read_symlink(entry.path(), gone).string();
      if (to.starts_with(begin)) all.insert(to.substr(begin.size(), to.size() - begin.size() - 1));
    }
  return all;
}

}  // namespace ft::test
