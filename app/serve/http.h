// An HTTP server for programs that speak JSON: whole replies, and streams of server-sent events. Bounded in
// everything a client decides: connections at once, the bytes of a request, and the time it takes to send it
// and to take the reply.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ft {

struct HttpRequest {
  std::string method, path;
  std::string host, authorization, content_type;  // headers; "": none
  std::string body;
  bool too_large = false;      // the body, which is not here then
  std::function<bool()> gone;  // whether the client has closed the connection
};

struct HttpReply {
  int status = 200;
  std::string body;                                          // JSON
  std::vector<std::pair<std::string, std::string>> headers;  // besides those that every reply has
  // Instead of a body: the next piece of a stream of server-sent events; nothing at its end.
  std::function<std::optional<std::string>()> next;
};

struct HttpLimits {
  std::int64_t connections = 64;              // at once; others wait to be accepted
  std::int64_t body = std::int64_t{8} << 20;  // bytes
  int request_seconds = 30;                   // for a request to arrive, from its first byte on
  int write_seconds = 30;                     // for a client to take some bytes of a reply
  int idle_seconds = 60;                      // of a connection between two requests
};

class HttpServer {
 public:
  // Called in a thread for each connection; may wait.
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  // Listens; port 0: any free one. UserError(Exit::config) when that cannot be.
  HttpServer(const std::string& host, int port, HttpLimits, Handler);
  // Waits for the replies under way; requests that have not arrived are not answered.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace ft
