// The headers of a page: only its own scripts run, and it loads nothing.
#include "app/http/web_page.h"

#include <gtest/gtest.h>

#include <map>

namespace ft {
namespace {

std::string header_of(const HttpReply& reply, const std::string& name) {
  for (const auto& [key, value] : reply.headers)
    if (key == name) return value;
  return "";
}

// Hashes as openssl computes them: printf 'alert(1)' | openssl dgst -sha256 -binary | base64
TEST(WebPage, OnlyItsOwnScriptsRun) {
  const HttpReply page =
      page_reply({}, "<script>alert(1)</script><p><script></script><script>hostile()</script>",
                 "<script>alert(1)</script><script></script><script>other()</script>");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.type, "text/html; charset=utf-8");
  EXPECT_EQ(
      header_of(page, "Content-Security-Policy"),
      "default-src 'none'; script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI=' "
      "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; style-src 'unsafe-inline'; img-src data:; "
      "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  const HttpReply none = page_reply({}, "<p>", "");
  EXPECT_NE(header_of(none, "Content-Security-Policy").find("script-src 'none';"), std::string::npos);
  EXPECT_EQ(header_of(none, "X-Content-Type-Options"), "nosniff");
}

TEST(WebPage, ABrowserThatHasThePageGetsNoBody) {
  HttpRequest r;
  const HttpReply first = page_reply(r, "<p>1", "");
  r.if_none_match = header_of(first, "ETag");
  EXPECT_EQ(page_reply(r, "<p>1", "").status, 304);
  EXPECT_EQ(page_reply(r, "<p>1", "").body, "");
  EXPECT_EQ(page_reply(r, "<p>2", "").status, 200);
}

}  // namespace
}  // namespace ft
