#include "app/doctor/machine.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "app/hub/http_client.h"
#include "app/launch/launcher.h"
#include "app/launch/own_host.h"
#include "app/screen/format.h"
#include "engine/cpu/cores.h"
#include "engine/cpu/cpu_ops.h"
#include "engine/cpu/target.h"
#include "engine/crypto/tls.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/cuda/nccl/nccl_communicator.h"
#include "engine/ranks/seal_trial.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

// Returns the rest of the line that begins with `start` and a colon in a file of /proc; "" if there is none.
std::string line_of(const char* file, const std::string& start) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(start))
      return printable(line.substr(std::min(line.find_first_not_of("\t: ", start.size()), line.size())), 120);
  return "";
}

std::string word_of(const std::string& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

Finding processor() {
  const std::string model = cpu::processor_name();
  try {
    return {.topic = "processor",
            .what = str(model, ", ", show::plural(cpu::usable_cores(), "core"), " for ft, ",
                        cpu::name_of(cpu::best_target()))};
  } catch (const UserError& e) {
    return {Health::bad, "processor", model + ": " + e.what(),
            "ft needs an x86-64 CPU with AVX2 (2013 or later)", Exit::hardware};
  }
}

Finding memory() {
  struct sysinfo info {};
  ::sysinfo(&info);
  const std::int64_t all = static_cast<std::int64_t>(info.totalram) * info.mem_unit;
  const std::int64_t left = cpu::CpuOps(1).free_memory();
  Finding f{.topic = "memory",
            .what = str(show::memory(left > 0 ? left : all), " free of ", show::memory(all))};
  if (left > 0 && left < std::int64_t{1} << 30) {
    f.health = Health::advice;
    f.todo = "this is little; ft plan shows how much a run needs";
  }
  return f;
}

Finding gpus() {
  std::error_code none;
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", none))
    count += entry.is_directory();
  const auto built = cuda_version();
  const std::string with = built ? "ft was built with CUDA " + *built : "ft was built without CUDA";
  if (count == 0) return {.topic = "GPU", .what = "no NVIDIA GPU; " + with};
  std::string driver = line_of("/proc/driver/nvidia/version", "NVRM version");
  std::istringstream words(driver);
  for (std::string word; words >> word;)
    if (std::count(word.begin(), word.end(), '.') > 0 && word[0] >= '0' && word[0] <= '9') {
      driver = word;
      break;
    }
  Finding f{.topic = "GPU", .what = str(show::plural(count, "NVIDIA GPU"), ", driver ", driver, "; ", with)};
  if (!built) {
    f.health = Health::advice;
    f.todo = "to use it, build ft where CUDA 13 is installed";
  }
  if (built && count > 1) {
    const auto nccl = nccl_version();
    f.what += nccl ? ", NCCL " + *nccl : ", no NCCL";
    if (!nccl) {
      f.health = Health::advice;
      f.todo =
          "without NVIDIA's NCCL (libnccl.so.2, 2.18 or later) ranks communicate through the host's memory; "
          "install "
          "it, or say where it is with ft --cuda-libs DIR";
    }
  }
  return f;
}

std::string number_of(const sockaddr& a) {
  std::array<char, NI_MAXHOST> host{};
  const socklen_t size = a.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  const bool ok = getnameinfo(&a, size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return ok ? host.data() : "";
}

// Lists the network interfaces: "eth0 10.0.0.1 (10 Gbit/s)". Leaves out loopback and link-local addresses.
Finding network() {
  ifaddrs* first = nullptr;
  std::string text;
  if (getifaddrs(&first) == 0) {
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, &freeifaddrs);
    for (const ifaddrs* i = first; i; i = i->ifa_next) {
      const bool up = (i->ifa_flags & IFF_UP) && !(i->ifa_flags & IFF_LOOPBACK);
      if (!up || !i->ifa_addr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6))
        continue;
      const std::string number = number_of(*i->ifa_addr);
      if (number.starts_with("fe80:")) continue;
      text += str(text.empty() ? "" : ", ", i->ifa_name, " ", number);
      const std::string speed = word_of(str("/sys/class/net/", i->ifa_name, "/speed"));
      if (!speed.empty() && speed[0] != '-' && speed != "0") text += str(" (", speed, " Mbit/s)");
    }
  }
  if (text.empty()) return {.topic = "network", .what = "this machine only: no address but loopback"};
  return {.topic = "network", .what = text};
}

Finding own_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const auto numbers = addresses_of(name.data());
  const std::string shown = printable(name.data());
  if (numbers.empty())
    return {Health::advice, "name", shown + " does not resolve here",
            "for several machines, give --master_addr an address that the others can reach"};
  const bool alone = is_loopback(numbers[0]);
  return {
      .topic = "name",
      .what = str(shown, " is ", numbers[0], alone ? " here; for several machines, give --master_addr" : "")};
}

Finding clock_of() {
  timex t{};
  const int state = adjtimex(&t);
  if (state >= 0 && state != TIME_ERROR && !(t.status & STA_UNSYNC))
    return {.topic = "clock", .what = "synchronised"};
  return {.topic = "clock",
          .what = "not synchronised; ft does not need that, but logs are easier to compare"};
}

Finding limits() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const bool limited = files.rlim_cur != RLIM_INFINITY;
  const std::string most = limited ? show::count(static_cast<std::int64_t>(files.rlim_cur)) : "any number of";
  Finding f{.topic = "limits", .what = most + " open files"};
  if (files.rlim_cur < 1024) {
    f.health = Health::advice;
    f.todo = "ulimit -n 4096: every rank has a connection to every other";
  }
  return f;
}

// Looks for the library that opens connections to a hub.
Finding hub_library() {
  try {
    return {.topic = "hub", .what = hub::http_library_version() + " fetches and sends models"};
  } catch (const UserError& e) {
    return {Health::advice, "hub", "ft pull and ft push do not work here", e.what()};
  }
}

// Measures auth and tls of distributed.encryption within this machine.
Finding encryption() {
  const auto speed = [](Encryption e) { return show::digits(try_seal(e) / 1e9) + " GB/s"; };
  try {
    const std::string auth = speed(Encryption::auth), tls = speed(Encryption::tls);
    return {.topic = "encryption",
            .what = str(tls_library_version(), " works: a rank sends ", auth,
                        " with distributed.encryption=auth, ", tls, " with tls")};
  } catch (const std::exception& e) {
    return {Health::bad, "encryption", str("distributed.encryption does not work here: ", e.what()),
            "see what OpenSSL's configuration, /etc/ssl/openssl.cnf, forbids", Exit::hardware};
  }
}

}  // namespace

std::vector<std::string> addresses_of(const std::string& host, std::string* why) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
  std::vector<std::string> all;
  if (problem != 0) {
    if (why) *why = gai_strerror(problem);
    return all;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* a = found; a; a = a->ai_next) all.push_back(number_of(*a->ai_addr));
  return all;
}

Findings look_at_machine() {
  return {processor(),   memory(),   gpus(),     network(), encryption(),
          hub_library(), own_name(), clock_of(), limits()};
}

}  // namespace ft
