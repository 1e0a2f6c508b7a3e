#include "app/http/web_page.h"

#include "engine/files/hash.h"

namespace ft {
namespace {

// Returns the base64 of bytes that are given as hexadecimal digits.
std::string base64_of_hex(const std::string& digits) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr std::size_t kGroup = 6;  // three bytes, four digits of base64
  std::string out;
  for (std::size_t at = 0; at < digits.size(); at += kGroup) {
    const std::string group = digits.substr(at, kGroup);
    const unsigned long bits = std::stoul(group, nullptr, 16) << 4 * (kGroup - group.size());
    for (std::size_t i = 0; i < 4; ++i)
      out += 6 * i < 4 * group.size() ? kDigits[(bits >> (18 - 6 * i)) & 63] : '=';
  }
  return out;
}

// Returns the sources of scripts that Content-Security-Policy allows: the hash of each script of `trusted`
// that the page has.
std::string scripts_of(const std::string& html, const std::string& trusted) {
  const std::string open = "<script>", close = "</script>";
  std::string sources;
  for (std::size_t at = 0; (at = trusted.find(open, at)) != std::string::npos;) {
    at += open.size();
    const std::size_t end = trusted.find(close, at);
    if (end == std::string::npos) break;
    const std::string script = trusted.substr(at, end - at);
    if (html.find(open + script + close) != std::string::npos)
      sources += " 'sha256-" + base64_of_hex(sha256(script)) + "'";
  }
  return sources.empty() ? " 'none'" : sources;
}

}  // namespace

HttpReply page_reply(const HttpRequest& request, const std::string& html, const std::string& trusted) {
  HttpReply reply{.body = html, .type = "text/html; charset=utf-8", .headers = {}, .next = {}};
  const std::string tag = "\"" + sha256(html) + "\"";
  reply.headers = {{"Content-Security-Policy",
                    "default-src 'none'; script-src" + scripts_of(html, trusted) +
                        "; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; "
                        "form-action 'none'; frame-ancestors 'none'"},
                   {"X-Content-Type-Options", "nosniff"},
                   {"Referrer-Policy", "no-referrer"},
                   {"Cross-Origin-Resource-Policy", "same-origin"},
                   {"Cache-Control", "no-cache"},
                   {"ETag", tag}};
  if (request.if_none_match == tag) {
    reply.status = 304;
    reply.body.clear();
  }
  return reply;
}

}  // namespace ft
