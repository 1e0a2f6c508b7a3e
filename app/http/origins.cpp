#include "app/http/origins.h"

#include <algorithm>

#include "engine/core/error.h"
#include "engine/core/lower_case.h"

namespace ft {
namespace {

// Returns the host of a header "Host: NAME:PORT".
std::string host_of(const std::string& header) {
  if (header.starts_with('[')) return header.substr(1, header.find(']') - 1);
  return header.substr(0, header.find(':'));
}

// Returns NAME:PORT of an origin SCHEME://NAME:PORT.
std::string place_of(const std::string& origin) {
  const std::size_t at = origin.find("://");
  return at == std::string::npos ? "" : origin.substr(at + 3);
}

// True for an IP address. Nobody can make one stand for another machine, as with a name.
bool is_ip_address(const std::string& host) {
  return host.find_first_not_of("0123456789.") == std::string::npos || host.find(':') != std::string::npos;
}

bool is_origin(const std::string& text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c > ' ' && c < 127; });
  const std::string place = place_of(text);
  return plain && (text.starts_with("http://") || text.starts_with("https://")) && !place.empty() &&
         place.find_first_of("/?#@*\"'") == std::string::npos;
}

}  // namespace

bool is_own_address(const std::string& host) {
  const std::string low = lower_case(host);
  const bool number = low.find_first_not_of("0123456789.") == std::string::npos;
  return low == "localhost" || low == "::1" || (number && low.starts_with("127."));
}

namespace {

// Browsers leave a scheme's usual port out.
std::string without_usual_port(std::string place, const std::string& origin) {
  const std::string port = origin.starts_with("https://") ? ":443" : ":80";
  if (place.ends_with(port)) place.resize(place.size() - port.size());
  return place;
}

}  // namespace

Origins::Origins(std::string host, std::vector<std::string> allowed)
    : host_(std::move(host)), allowed_(std::move(allowed)) {
  for (std::string& origin : allowed_) {
    origin = without_usual_port(lower_case(origin), lower_case(origin));
    if (!is_origin(origin))
      throw UserError(Exit::config, str("--allow-origin ", printable(origin),
                                        ": an origin is a scheme, a name and a port, such as "
                                        "https://example.org or http://localhost:3000, without a path"));
  }
}

bool Origins::allows(const std::string& origin) const {
  return std::ranges::find(allowed_, lower_case(origin)) != allowed_.end();
}

std::string Origins::fault_of_origin(const HttpRequest& r) const {
  if (r.origin.empty() || allows(r.origin)) return "";
  const std::string origin = lower_case(r.origin);
  if (without_usual_port(place_of(origin), origin) == without_usual_port(lower_case(r.host), origin))
    return "";
  constexpr std::size_t kShown = 200;
  return str("pages of ", printable(r.origin, kShown),
             " may not send requests here, unless the server is started with --allow-origin ",
             printable(r.origin, kShown));
}

std::string Origins::fault_of_host(const HttpRequest& r) const {
  const std::string host = lower_case(host_of(r.host));
  if (is_own_address(host) || host == lower_case(host_)) return "";
  for (const std::string& origin : allowed_)
    if (host_of(place_of(origin)) == host) return "";
  if (is_own_address(host_)) return "requests have to name this machine's own address, such as localhost";
  if (is_ip_address(host)) return "";
  return "requests have to name this machine by its IP address, or by the name that --host has";
}

bool Origins::is_preflight(const HttpRequest& r) { return r.method == "OPTIONS" && !r.origin.empty(); }

void Origins::admit(const HttpRequest& r, HttpReply& reply) const {
  if (r.origin.empty() || !allows(r.origin)) return;
  reply.headers.emplace_back("Access-Control-Allow-Origin", r.origin);
  reply.headers.emplace_back("Vary", "Origin");
  if (!is_preflight(r)) return;
  reply.headers.emplace_back("Access-Control-Allow-Methods", "GET, POST");
  reply.headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type");
  reply.headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  reply.headers.emplace_back("Access-Control-Max-Age", "600");
}

}  // namespace ft
