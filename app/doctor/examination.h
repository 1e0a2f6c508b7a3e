// Checks of ft doctor on one of several machines: examines it, listens, and tries to reach the other
// machines.
#pragma once
#include <string>
#include <thread>
#include <vector>

#include "app/doctor/finding.h"
#include "engine/ranks/socket.h"

namespace ft {

struct Reached {
  std::string host;
  double milliseconds = 0;  // time to connect
  std::string problem;      // empty: reached
};

class Examination {
 public:
  // `host`: the hostfile's name of this machine; `hosts`: all its names. Examines the machine, and listens
  // from now on at the address that its name resolves to.
  Examination(const std::string& host, const std::vector<std::string>& hosts, const Folders& folders);

  const Findings& findings() const { return findings_; }
  int port() const { return listener_ ? local_address(listener_).port : 0; }  // 0: it cannot listen
  std::vector<Reached> reach(const std::vector<Address>& others) const;

 private:
  void look_at_names(const std::vector<std::string>& hosts);
  void listen(const std::string& host);

  Findings findings_;
  Socket listener_;
  std::jthread door_;  // accepts connections and sends nothing
};

}  // namespace ft
