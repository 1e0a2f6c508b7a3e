#include "app/launch/own_host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

#include "engine/core/lower_case.h"

namespace ft {
namespace {

// The bytes of an IPv6 address; an IPv4 address is mapped to ::ffff:127.0.0.1.
using Address = std::array<unsigned char, 16>;

Address mapped(const in_addr& number) {
  Address a{};
  a[10] = a[11] = 0xff;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&number);
  std::copy(bytes, bytes + sizeof number, a.begin() + 12);
  return a;
}

Address address_of(const in6_addr& number) {
  Address a{};
  std::copy(std::begin(number.s6_addr), std::end(number.s6_addr), a.begin());
  return a;
}

std::optional<Address> read_address(const std::string& text) {
  in_addr four{};
  in6_addr six{};
  if (::inet_pton(AF_INET, text.c_str(), &four) == 1) return mapped(four);
  if (::inet_pton(AF_INET6, text.c_str(), &six) == 1) return address_of(six);
  return std::nullopt;
}

std::optional<Address> read_address(const sockaddr* at) {
  if (at && at->sa_family == AF_INET) return mapped(reinterpret_cast<const sockaddr_in*>(at)->sin_addr);
  if (at && at->sa_family == AF_INET6)
    return address_of(reinterpret_cast<const sockaddr_in6*>(at)->sin6_addr);
  return std::nullopt;
}

bool is_own(const Address& a) {
  if (a[12] == 127 && std::equal(a.begin(), a.begin() + 12, mapped({}).begin())) return true;
  if (a == *read_address("::1")) return true;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, &::freeifaddrs);
  for (const ifaddrs* at = list; at; at = at->ifa_next)
    if (read_address(at->ifa_addr) == a) return true;
  return false;
}

bool is_own_in_hosts_file(const std::string& low) {
  std::ifstream file("/etc/hosts");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string number, name;
    words >> number;
    while (words >> name)
      if (const auto address = read_address(number); lower_case(name) == low && address && is_own(*address))
        return true;
  }
  return false;
}

bool resolves_to_own(const std::string& host) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &wanted, &found) != 0) return false;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, &::freeaddrinfo);
  const auto address = read_address(found->ai_addr);
  return address && is_own(*address);
}

std::string own_name() {
  std::array<char, 256> own{};
  ::gethostname(own.data(), own.size() - 1);
  return lower_case(own.data());
}

}  // namespace

bool is_loopback(const std::string& number) { return number.starts_with("127.") || number == "::1"; }

bool is_here(const std::string& host) {
  if (const auto address = read_address(host)) return is_own(*address);
  const std::string low = lower_case(host), own = own_name();
  if (low == "localhost" || low == own || is_own_in_hosts_file(low)) return true;
  // Compares without domains: node1 equals node1.cluster.
  return low.substr(0, low.find('.')) == own.substr(0, own.find('.')) && resolves_to_own(host);
}

}  // namespace ft
