// Names and addresses of this machine.
#include "app/launch/own_host.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "app/launch/launcher.h"
#include "engine/core/error.h"

namespace ft {
namespace {

std::string own_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

TEST(OwnHost, LoopbackInEverySpelling) {
  for (const char* host : {"localhost", "LOCALHOST", "LocalHost", "127.0.0.1", "127.0.1.1", "127.255.0.9",
                           "::1", "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_here(host)) << host;
}

TEST(OwnHost, ItsNameInAnyCase) {
  std::string name = own_name();
  EXPECT_TRUE(is_here(name));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  EXPECT_TRUE(is_here(name));
}

TEST(OwnHost, AddressesOfItsInterfaces) {
  ifaddrs* list = nullptr;
  ASSERT_EQ(getifaddrs(&list), 0);
  for (const ifaddrs* at = list; at; at = at->ifa_next) {
    if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET) continue;
    std::array<char, INET_ADDRSTRLEN> text{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text.data(),
              text.size());
    EXPECT_TRUE(is_here(text.data())) << text.data();
  }
  freeifaddrs(list);
}

TEST(OwnHost, OtherHostsAreRemote) {
  for (const std::string host :
       {"192.0.2.1", "2001:db8::1", "node-a.invalid", "localhost.example.invalid", "1270.0.0.1"})
    EXPECT_FALSE(is_here(host)) << host;
}

// Ranks of other machines cannot connect to a loopback address, so it is refused unless the user chose it.
TEST(OwnHost, LoopbackIsForItsOwnRanks) {
  EXPECT_NO_THROW(listen_for_ranks("127.0.0.1", 0, false, false));
  EXPECT_NO_THROW(listen_for_ranks("127.0.0.1", 0, true, true));
  EXPECT_THROW(listen_for_ranks("127.0.0.1", 0, false, true), UserError);
  EXPECT_THROW(listen_for_ranks("localhost", 0, false, true), UserError);
}

}  // namespace
}  // namespace ft
