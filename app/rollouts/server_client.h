// Requests to a server with OpenAI's API, with further attempts until a deadline. A trouble that may pass is
// a broken connection, or a status that asks to come again; the waits between attempts double.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "app/hub/http_client.h"
#include "engine/core/error.h"

namespace ft {

struct ServerAccess {
  std::string url;   // http://127.0.0.1:8000, without a slash at its end
  std::string key;   // empty: none. Never printed
  double seconds{};  // most that a piece of work may take, with all attempts
};

// A refusal that further attempts would not change.
struct ServerRefused : UserError {
  ServerRefused(int of, std::string text, const std::string& what)
      : UserError(of == 401 || of == 403 ? Exit::mismatch : Exit::input, what),
        status(of),
        body(std::move(text)) {}
  int status;
  std::string body;
};

// A client for one thread.
class ServerClient {
 public:
  using Clock = std::chrono::steady_clock;
  // stop: asked often while a request runs or waits for another attempt; true ends it with Cancelled.
  ServerClient(ServerAccess, Clock::time_point deadline, std::function<bool()> stop = {});
  ServerClient(const ServerClient&) = delete;
  ServerClient& operator=(const ServerClient&) = delete;

  // Returns the body of the reply to a GET, or to a POST of JSON. Throws UserError with the server's name and
  // the setting to change: ServerRefused for a status that is not 200; (input) for a body of more than
  // `most_bytes`; (peer_lost) if all attempts fail; (hang) if the deadline comes while a request runs.
  std::string get(const std::string& path, std::int64_t most_bytes);
  std::string post(const std::string& path, const std::string& body, std::int64_t most_bytes);

  struct Cancelled {};
  // Throws UserError (exit): "objective.rollout_server (URL): WHAT".
  [[noreturn]] void fail(Exit exit, const std::string& what) const;

 private:
  struct Reply {
    int status = 0;
    std::string body;
    double wait = 0;  // seconds that the server asks to wait
  };
  Reply attempt(const hub::HttpRequest&, std::int64_t most_bytes);
  std::string send(const hub::HttpRequest&, const std::string& path, std::int64_t most_bytes);
  void wait(double seconds, const std::string& trouble, int attempts) const;
  bool is_over() const { return Clock::now() >= deadline_; }

  ServerAccess access_;
  Clock::time_point deadline_;
  std::function<bool()> stop_;
  std::unique_ptr<hub::HttpClient> http_;
};

}  // namespace ft
