// What ft doctor does on one machine of several: examines it, listens, and tries to reach the others.
#pragma once
#include <string>
#include <thread>
#include <vector>

#include "app/doctor/finding.h"
#include "engine/ranks/socket.h"

namespace ft {

struct Reached {
  std::string host;
  double milliseconds = 0;  // to be connected
  std::string problem;      // empty: reached
};

class Examination {
 public:
  // host: as the hostfile calls this machine, hosts: all of them. Looks, and listens
  // from now on at the address that its name stands for.
  Examination(const std::string& host, const std::vector<std::string>& hosts, const Folders& folders);

  const Findings& findings() const { return findings_; }
  int port() const { return listener_ ? local_address(listener_).port : 0; }  // 0: it cannot listen
  std::vector<Reached> reach(const std::vector<Address>& others) const;

 private:
  void look_at_names(const std::vector<std::string>& hosts);
  void listen(const std::string& host);

  Findings findings_;
  Socket listener_;
  std::jthread door_;  // lets everybody in and says nothing
};

}  // namespace ft
