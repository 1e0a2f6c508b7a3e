// Two machines, simulated by linked network namespaces. Needs root and iproute2.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

namespace ft::test {

inline bool sh(const std::string& command) {
  return std::system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Two namespaces with a link between them; removed at the end. False if they could not be made.
class Nodes {
 public:
  Nodes() {
    for (const std::string& n : {a, b}) {
      ok_ = ok_ && sh("ip netns add " + n);
      ok_ = ok_ && sh("ip -n " + n + " link set lo up");
    }
    ok_ = ok_ && sh("ip link add link0 netns " + a + " type veth peer name link0 netns " + b);
    for (const auto& [n, address] : {std::pair{a, kA}, std::pair{b, kB}})
      ok_ = ok_ && sh("ip -n " + n + " addr add " + address + "/24 dev link0") &&
            sh("ip -n " + n + " link set link0 up");
  }
  ~Nodes() {
    for (const std::string& n : {a, b}) sh("ip netns del " + n);
  }
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;
  explicit operator bool() const { return ok_; }

  static constexpr const char *kA = "10.77.0.1", *kB = "10.77.0.2";
  const std::string a = "ft-" + std::to_string(getpid()) + "-a", b = "ft-" + std::to_string(getpid()) + "-b";

 private:
  bool ok_ = geteuid() == 0;
};

}  // namespace ft::test
