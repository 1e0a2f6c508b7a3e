// HTTP requests. Only http_client.cpp and curl_library know libcurl.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace ft::hub {

enum class HttpMethod : std::uint8_t { get, head, post, put };

// The body of a POST or PUT. `read` copies a part of it, in order, or once more from a place before when a
// connection has to be made again. An exception of it ends the request and is thrown by send().
struct HttpBody {
  std::int64_t size = 0;  // bytes
  std::function<void(std::int64_t at, char* to, std::int64_t bytes)> read;
};
HttpBody text_body(std::string text);

struct HttpRequest {
  HttpMethod method = HttpMethod::get;
  std::string url;
  std::string token;                // sent as "Authorization: Bearer"; empty: none
  std::int64_t from = 0;            // first byte wanted, with a Range header; 0: all bytes without one
  std::vector<std::string> fields;  // further lines of the head: "Content-Type: application/json"
  HttpBody body;                    // of POST and PUT
};

struct HttpHead {
  int status = 0;
  std::map<std::string, std::string> fields;  // names in lower case

  const std::string& field(const std::string& name) const;  // empty: there is none
};

// Takes a part of a response's body. An exception ends the request and is thrown by send().
using HttpSink = std::function<void(const HttpHead&, std::string_view)>;

// A connection that failed or broke. Another attempt may succeed.
struct ConnectionFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown when HttpOptions::stop returned true.
struct Stopped {};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // Sends one request, and follows no redirect. Throws ConnectionFailed, Stopped, or UserError (mismatch)
  // if the server's certificate is not trusted.
  virtual HttpHead send(const HttpRequest&, const HttpSink&) = 0;
};

struct HttpOptions {
  std::string certificates;    // file of trusted authorities; empty: the library's default
  std::function<bool()> stop;  // asked often while a request runs; empty: never stops
  int connect_seconds = 30;
  int silent_seconds = 60;  // a connection that brings nothing for so long is broken
};

// Returns a client for one thread. It keeps connections open between requests, and uses the proxies that
// https_proxy, http_proxy, all_proxy and no_proxy name. Throws UserError (hardware) if libcurl is missing.
std::unique_ptr<HttpClient> make_http_client(HttpOptions);

// Returns "libcurl 7.88.1". Throws like make_http_client().
std::string http_library_version();

// Returns the address that a Location field names, which may be relative to `base`; empty if it is none.
std::string resolved_url(const std::string& base, const std::string& location);
// Returns scheme, host and port: "https://huggingface.co". The usual port is left out.
std::string origin_of(const std::string& url);
// Returns the text with all but letters, digits and "-._~" as %XX; `keep` lists further characters to keep.
std::string percent_encoded(std::string_view text, std::string_view keep = "");
// Returns the seconds of a Retry-After field, a number or a date; empty if it is neither.
std::optional<double> retry_after(const std::string& field);

}  // namespace ft::hub
