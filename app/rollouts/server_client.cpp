#include "app/rollouts/server_client.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>
#include <utility>

namespace ft {
namespace {

constexpr double kFirstWait = 0.25, kLongestWait = 8;  // seconds
constexpr int kMostFaults = 3;                         // attempts that end with status 500

// Returns true if the same request may succeed later.
bool may_pass(int status) {
  return status == 408 || status == 429 || status == 500 || (502 <= status && status <= 504);
}

struct TooLarge {};

}  // namespace

ServerClient::ServerClient(ServerAccess access, Clock::time_point deadline, std::function<bool()> stop)
    : access_(std::move(access)), deadline_(deadline), stop_(std::move(stop)) {
  hub::HttpOptions options;
  options.stop = [this] { return is_over() || (stop_ && stop_()); };
  options.connect_seconds = static_cast<int>(std::clamp(std::ceil(access_.seconds), 1.0, 30.0));
  options.silent_seconds = static_cast<int>(std::min(std::ceil(access_.seconds) + 1, 1e6));
  http_ = hub::make_http_client(std::move(options));
}

void ServerClient::fail(Exit exit, const std::string& what) const {
  throw UserError(exit, str("objective.rollout_server (", printable(access_.url), "): ", what));
}

std::string ServerClient::get(const std::string& path, std::int64_t most_bytes) {
  hub::HttpRequest request;
  request.url = access_.url + path;
  return send(request, path, most_bytes);
}

std::string ServerClient::post(const std::string& path, const std::string& body, std::int64_t most_bytes) {
  hub::HttpRequest request;
  request.method = hub::HttpMethod::post;
  request.url = access_.url + path;
  request.fields = {"Content-Type: application/json"};
  request.body = hub::text_body(body);
  return send(request, path, most_bytes);
}

ServerClient::Reply ServerClient::attempt(const hub::HttpRequest& request, std::int64_t most_bytes) {
  Reply reply;
  const hub::HttpHead head = http_->send(request, [&](const hub::HttpHead&, std::string_view part) {
    if (std::ssize(reply.body) + std::ssize(part) > most_bytes) throw TooLarge();
    reply.body += part;
  });
  reply.status = head.status;
  reply.wait = hub::retry_after(head.field("retry-after")).value_or(0);
  return reply;
}

void ServerClient::wait(double seconds, const std::string& trouble, int attempts) const {
  const auto until = Clock::now() + std::chrono::duration<double>(seconds);
  if (until >= deadline_)
    fail(Exit::peer_lost, str(trouble, ", in ", attempts, attempts == 1 ? " attempt" : " attempts",
                              " within ", access_.seconds,
                              " s; is the server running? objective.rollout_server_timeout "
                              "is the limit"));
  while (Clock::now() < until) {
    if (stop_ && stop_()) throw Cancelled();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::string ServerClient::send(const hub::HttpRequest& request, const std::string& path,
                               std::int64_t most_bytes) {
  hub::HttpRequest own = request;
  own.token = access_.key;
  double pause = kFirstWait;
  std::string before;  // the last trouble
  for (int attempts = 1, faults = 0;; ++attempts, pause = std::min(2 * pause, kLongestWait)) {
    Reply reply;
    std::string trouble;
    try {
      reply = attempt(own, most_bytes);
    } catch (const hub::ConnectionFailed& e) {
      trouble = str(path, ": ", e.what());
    } catch (const hub::Stopped&) {
      if (!is_over()) throw Cancelled();
      fail(Exit::hang, str(path, ": no complete answer within ", access_.seconds, " s",
                           before.empty() ? "" : "; before that " + before,
                           "; objective.rollout_server_timeout is the limit"));
    } catch (const TooLarge&) {
      fail(Exit::input, str(path, ": the reply has more than ", most_bytes, " bytes, which no answer needs"));
    }
    if (trouble.empty() && reply.status == 200) return std::move(reply.body);
    if (trouble.empty()) {
      trouble =
          str(path, ": status ", reply.status, reply.body.empty() ? "" : ": " + printable(reply.body, 300));
      faults += reply.status == 500;
      if (!may_pass(reply.status) || faults >= kMostFaults)
        throw ServerRefused(reply.status, reply.body,
                            str("objective.rollout_server (", printable(access_.url), "): ", trouble));
    }
    wait(std::max(pause, reply.wait), trouble, attempts);
    before = trouble;
  }
}

}  // namespace ft
