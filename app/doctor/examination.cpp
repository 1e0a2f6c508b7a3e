#include "app/doctor/examination.h"

#include <poll.h>

#include <algorithm>
#include <future>

#include "app/doctor/machine.h"
#include "app/launch/launcher.h"
#include "app/launch/own_host.h"

namespace ft {
namespace {

constexpr std::chrono::seconds kToConnect{4};
constexpr std::size_t kAtOnce = 64;

Reached try_to_reach(const Address& a) {
  Reached r{.host = a.host};
  const auto start = Clock::now();
  try {
    if (a.port == 0)
      r.problem = "it does not listen";
    else
      connect_to(a, start + kToConnect, a.host);
  } catch (const UserError& e) {
    r.problem = e.what();
    r.problem = r.problem.substr(0, r.problem.find('\n'));
  }
  r.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return r;
}

}  // namespace

Examination::Examination(const std::string& host, const std::vector<std::string>& hosts,
                         const Folders& folders)
    : findings_(look_at_machine()) {
  for (Finding& f : look_at_folder(folders.output)) findings_.push_back(std::move(f));
  for (const std::string& folder : folders.offload) findings_.push_back(look_at_offload(folder));
  if (hosts.size() < 2) return;
  // look_at_names() checks the addresses of the hostfile's names instead.
  std::erase_if(findings_, [](const Finding& f) { return f.topic == "name"; });
  look_at_names(hosts);
  listen(host);
}

void Examination::look_at_names(const std::vector<std::string>& hosts) {
  Finding f{.topic = "names", .what = str("all ", hosts.size(), " host names resolve")};
  for (const std::string& host : hosts) {
    std::string why;
    if (!addresses_of(host, &why).empty()) continue;
    f = {Health::bad, "names", str(host, " does not resolve here: ", why),
         "add it to DNS or /etc/hosts, or put its IP address into the hostfile", Exit::config};
    break;
  }
  findings_.push_back(f);
}

void Examination::listen(const std::string& host) {
  try {
    listener_ = listen_at({host, 0});
  } catch (const UserError& e) {
    findings_.push_back({Health::bad, "port", e.what(),
                         "the name in the hostfile must be an address of this machine", Exit::config});
    return;
  }
  const std::string number = local_address(listener_).host;
  if (is_loopback(number))
    findings_.push_back({Health::bad, "port", str(host, " is ", number, " here, which others cannot reach"),
                         "fix /etc/hosts here, or put the machine's IP address into the hostfile",
                         Exit::config});
  door_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd p{listener_.fd(), POLLIN, 0};
      if (::poll(&p, 1, 100) > 0) accept_from(listener_);
    }
  });
}

std::vector<Reached> Examination::reach(const std::vector<Address>& others) const {
  std::vector<Reached> all;
  for (std::size_t first = 0; first < others.size(); first += kAtOnce) {
    std::vector<std::future<Reached>> some;
    for (std::size_t i = first; i < std::min(first + kAtOnce, others.size()); ++i)
      some.push_back(std::async(std::launch::async, try_to_reach, others[i]));
    for (auto& one : some) all.push_back(one.get());
  }
  return all;
}

}  // namespace ft
