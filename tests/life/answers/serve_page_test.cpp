// The chat page of ft serve from outside: it needs nothing else, and pages of other origins are refused.
#include <gtest/gtest.h>

#include <regex>

#include "tests/life/answers/served.h"

namespace ft::test {
namespace {

const std::string kEvil = "Origin: https://evil.example\r\n", kFriend = "Origin: https://ui.example\r\n";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ServePage, IsOneFileThatLoadsNothing) {
  const Served w;
  std::ofstream(w / "key") << "s3cret\n";
  const Server server(w, {"--api-key-file", "key"});
  HttpClient client(server.port);
  const HttpAnswer page = client.get("/");  // comes without the key, and asks for it
  ASSERT_EQ(page.status, 200);
  EXPECT_TRUE(contains(page.head, "Content-Type: text/html; charset=utf-8")) << page.head;
  EXPECT_TRUE(contains(page.head, "default-src 'none'; script-src 'sha256-")) << page.head;
  EXPECT_TRUE(contains(page.head, "frame-ancestors 'none'")) << page.head;
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  for (const char* loads : {"http:", "https:", "src=", "@import", " url(", ":url(", "{{", "import("})
    EXPECT_FALSE(contains(page.body, loads)) << loads;
  std::smatch tag;
  ASSERT_TRUE(std::regex_search(page.head, tag, std::regex("ETag: (\"\\w+\")")));
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: " + tag[1].str() + "\r\n\r\n");
  EXPECT_EQ(client.read_head().status, 304);
  HttpClient other(server.port);
  EXPECT_EQ(other.post("/", Json::object()).status, 405);
  EXPECT_EQ(other.get("/v1/models").status, 401);
}

TEST(ServePage, OtherOriginsAreRefusedAlsoWithTheKey) {
  const Served w;
  std::ofstream(w / "key") << "s3cret\n";
  const Server open(w), closed(w, {"--api-key-file", "key"});
  const Json ask{{"model", "base"}, {"prompt", "a"}, {"max_tokens", 2}};
  const HttpAnswer refused = open.post(kText, ask, kEvil);
  EXPECT_EQ(refused.status, 403);
  EXPECT_TRUE(contains(refused.json()["error"]["message"], "--allow-origin https://evil.example"))
      << refused.body;
  EXPECT_FALSE(contains(refused.head, "Access-Control")) << refused.head;
  EXPECT_EQ(closed.post(kText, ask, kEvil + "Authorization: Bearer s3cret\r\n").status, 403);
  EXPECT_EQ(open.post(kText, ask, "Origin: null\r\n").status, 403);
  EXPECT_EQ(open.post(kText, ask, "Origin: http://127.0.0.1:" + std::to_string(open.port) + "\r\n").status,
            200);
  EXPECT_EQ(open.post(kText, ask, "Origin: http://127.0.0.1:1\r\n").status, 403) << "another program's page";
  HttpClient rebound(open.port);  // a name of the page's own that leads here
  rebound.send("GET / HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://evil.example\r\n\r\n");
  EXPECT_EQ(rebound.read().status, 403);
}

TEST(ServePage, AnAllowedOriginMayAskAndReadTheReply) {
  const Served w;
  std::ofstream(w / "key") << "s3cret\n";
  const Server server(w, {"--allow-origin", "https://ui.example", "--api-key-file", "key"});
  HttpClient client(server.port);
  const auto preflight = [&](const std::string& origin) {
    client.send("OPTIONS " + kChat + " HTTP/1.1\r\nHost: localhost\r\n" + origin +
                "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: "
                "authorization,content-type\r\n\r\n");
    return client.read_head();
  };
  const HttpAnswer before = preflight(kFriend);
  EXPECT_EQ(before.status, 204) << before.head;
  EXPECT_TRUE(contains(before.head, "Access-Control-Allow-Headers: Authorization, Content-Type"))
      << before.head;
  const Json ask{{"model", "base"}, {"prompt", "a"}, {"max_tokens", 2}};
  for (const auto& [key, status] : {std::pair{"s3cret", 200}, {"other", 401}}) {
    const HttpAnswer a = server.post(kText, ask, kFriend + "Authorization: Bearer " + key + "\r\n");
    EXPECT_EQ(a.status, status);
    EXPECT_TRUE(contains(a.head, "Access-Control-Allow-Origin: https://ui.example")) << a.head;
  }
  EXPECT_EQ(server.post(kText, ask, kEvil + "Authorization: Bearer s3cret\r\n").status, 403);
  EXPECT_EQ(w.run({"serve", "--model", kBase, "--allow-origin", "*"}), 2);
  EXPECT_TRUE(contains(w.says(), "--allow-origin *: an origin is a scheme, a name and a port")) << w.says();
}

}  // namespace
}  // namespace ft::test
