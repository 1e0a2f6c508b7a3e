#include "app/http/web_page.h"

#include "engine/core/base64.h"
#include "engine/files/hash.h"

namespace ft {
namespace {

// Returns the bytes that are given as pairs of hexadecimal digits.
std::string bytes_of_hex(const std::string& digits) {
  std::string bytes;
  for (std::size_t at = 0; at + 1 < digits.size(); at += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, 16));
  return bytes;
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
      sources += " 'sha256-" + base64(bytes_of_hex(sha256(script))) + "'";
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
