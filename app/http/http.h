// An HTTP server for programs and browsers: complete replies, and streams of server-sent events. It limits
// connections at once, the bytes of a request, and the time to send it and to receive the reply.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/crypto/tls.h"

namespace ft {

struct HttpRequest {
  std::string method, path;
  std::string host, origin, authorization, content_type, if_none_match;  // headers; "": none
  std::string body;
  bool too_large = false;      // the body is too large and left out
  std::function<bool()> gone;  // returns true once the client has closed the connection
};

struct HttpReply {
  int status = 200;
  std::string body;
  std::string type = "application/json";                     // of the body
  std::vector<std::pair<std::string, std::string>> headers;  // in addition to the headers of every reply
  // Instead of a body: returns the next piece of a stream of server-sent events, and nothing at its end.
  std::function<std::optional<std::string>()> next;
};

struct HttpLimits {
  std::int64_t connections = 64;              // at once; more wait to be accepted
  std::int64_t body = std::int64_t{8} << 20;  // bytes
  int request_seconds = 30;                   // for a request to arrive, from its first byte
  int write_seconds = 30;                     // for a client to receive some bytes of a reply
  int idle_seconds = 60;                      // for a connection between two requests
};

class HttpServer {
 public:
  // Answers a request. Called in a thread for each connection; may wait.
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  // Listens; port 0: any free port. tls: for HTTPS; empty: plain HTTP. Throws UserError (config) if it cannot
  // listen.
  HttpServer(const std::string& host, int port, HttpLimits, Handler, std::optional<TlsContext> tls = {});
  // Waits for the current replies. Does not answer requests that have not arrived completely.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  std::string address() const;  // https://HOST:PORT, or http://

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The files of a server's certificate and of its key, as typed; empty: none.
struct CertificateFiles {
  std::string certificate, key;
};
// Returns the settings of HTTPS; empty: plain HTTP. Throws UserError (config) if one of the files is missing
// or wrong.
std::optional<TlsContext> https_of(const CertificateFiles&);

}  // namespace ft
