// The pages in browsers that may send requests: the server's own and those allowed by name, whatever name a
// page makes stand for this machine's address.
#include "app/http/origins.h"

#include <gtest/gtest.h>

#include "engine/core/error.h"

namespace ft {
namespace {

HttpRequest asked_by(const std::string& host, const std::string& origin, const std::string& method = "GET") {
  HttpRequest r;
  r.method = method;
  r.host = host;
  r.origin = origin;
  return r;
}

TEST(Origins, OtherPagesAreRefusedUnlessAllowedByName) {
  const Origins own("127.0.0.1", {}), shared("127.0.0.1", {"https://UI.example", "http://localhost:3000"});
  const auto refused = [](const Origins& o, const std::string& origin) {
    return !o.fault_of_origin(asked_by("localhost:8000", origin)).empty();
  };
  EXPECT_FALSE(refused(own, "")) << "a program, not a page";
  EXPECT_FALSE(refused(own, "http://localhost:8000"));
  EXPECT_FALSE(refused(own, "http://LOCALHOST:8000"));
  for (const char* other : {"http://localhost:3000", "http://localhost", "https://ui.example", "null",
                            "http://localhost:8000.evil.example", "http://evil.example", "localhost:8000"})
    EXPECT_TRUE(refused(own, other)) << other;
  EXPECT_FALSE(refused(shared, "https://ui.example"));
  EXPECT_FALSE(refused(shared, "http://localhost:3000"));
  for (const char* other : {"http://ui.example", "https://ui.example:444", "https://ui.example.evil.example"})
    EXPECT_TRUE(refused(shared, other)) << other;
  EXPECT_EQ(own.fault_of_origin(asked_by("localhost:8000", "http://a.example")),
            "pages of http://a.example may not send requests here, unless the server is started with "
            "--allow-origin http://a.example");
}

TEST(Origins, NamesThatMayStandForThisMachineAreRefused) {
  const auto refused = [](const Origins& o, const std::string& host) {
    return !o.fault_of_host(asked_by(host, "")).empty();
  };
  const Origins own("127.0.0.1", {});
  for (const char* host : {"localhost:8000", "127.0.0.1", "[::1]:8000", "127.3.2.1:80"})
    EXPECT_FALSE(refused(own, host)) << host;
  for (const char* host :
       {"evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.1", ""})
    EXPECT_TRUE(refused(own, host)) << host;
  const Origins open("0.0.0.0", {"https://ui.example:444"}), named("box.lan", {});
  for (const char* host : {"10.0.0.1:8000", "[fe80::1]:8000", "localhost", "ui.example:444", "UI.example"})
    EXPECT_FALSE(refused(open, host)) << host;
  EXPECT_TRUE(refused(open, "evil.example")) << "its name may lead to this machine";
  EXPECT_FALSE(refused(named, "BOX.lan:8000"));
  EXPECT_TRUE(refused(named, "evil.example"));
}

TEST(Origins, OnlyAllowedPagesGetToReadAReply) {
  const Origins shared("127.0.0.1", {"https://ui.example"});
  HttpReply no, yes, before;
  shared.admit(asked_by("localhost", "https://evil.example"), no);
  shared.admit(asked_by("localhost", ""), no);
  shared.admit(asked_by("localhost", "http://localhost"), no);
  EXPECT_TRUE(no.headers.empty());
  shared.admit(asked_by("localhost", "https://ui.example"), yes);
  ASSERT_EQ(yes.headers.size(), 2u);
  EXPECT_EQ(yes.headers[0],
            (std::pair<std::string, std::string>{"Access-Control-Allow-Origin", "https://ui.example"}));
  shared.admit(asked_by("localhost", "https://ui.example", "OPTIONS"), before);
  EXPECT_EQ(before.headers[3].second, "Authorization, Content-Type");
}

TEST(Origins, AnOriginIsASchemeANameAndAPort) {
  for (const char* wrong :
       {"*", "ui.example", "https://", "https://ui.example/", "https://*.example", "null", "ftp://ui.example",
        "https://a b", "https://ui.example/page", "https://me@ui.example"})
    try {
      const Origins origins("127.0.0.1", {wrong});
      ADD_FAILURE() << wrong;
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::config);
      EXPECT_TRUE(
          std::string(e.what()).starts_with(std::string("--allow-origin ") + wrong + ": an origin is"))
          << e.what();
    }
}

}  // namespace
}  // namespace ft
