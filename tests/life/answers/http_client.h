// An HTTP client that sends exactly the bytes that a test wants, including wrong ones.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <string>

#include "engine/ranks/socket.h"
#include "tests/life/program.h"

namespace ft::test {

struct HttpAnswer {
  int status = 0;  // 0: the server closed the connection without an answer
  std::string head, body;
  Json json() const { return Json::parse(body); }
};

class HttpClient {
 public:
  explicit HttpClient(int port)
      : port_(port),
        socket_(connect_to({"127.0.0.1", port}, Clock::now() + std::chrono::seconds(30), "server")) {}

  bool send(const std::string& bytes) const {
    for (std::size_t at = 0; at < bytes.size();) {
      pollfd p{socket_.fd(), POLLOUT, 0};  // the socket does not block
      if (poll(&p, 1, kPatience) <= 0) return false;
      const ssize_t n = ::send(socket_.fd(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return false;
      at += static_cast<std::size_t>(n);
    }
    return true;
  }
  std::string head(const std::string& method, const std::string& path, std::size_t length,
                   const std::string& more = "") const {
    return method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port_) +
           "\r\nContent-Type: application/json\r\nContent-Length: " + std::to_string(length) + "\r\n" + more +
           "\r\n";
  }
  HttpAnswer post(const std::string& path, const std::string& body, const std::string& more = "") {
    send(head("POST", path, body.size(), more) + body);
    return read();
  }
  HttpAnswer post(const std::string& path, const Json& body, const std::string& more = "") {
    return post(path, body.dump(), more);
  }
  HttpAnswer get(const std::string& path, const std::string& more = "") {
    send("GET " + path + " HTTP/1.1\r\nHost: localhost:1\r\n" + more + "\r\n");
    return read();
  }
  // Waits until the received bytes contain these words; at most two minutes.
  bool wait_for(const std::string& words) {
    while (held_.find(words) == std::string::npos)
      if (!receive()) return false;
    return true;
  }
  // Reads an answer that has no body by its status.
  HttpAnswer read_head() {
    HttpAnswer a;
    if (!wait_for("\r\n\r\n")) return a;
    a.head = take(held_.find("\r\n\r\n") + 4);
    a.status = std::stoi(a.head.substr(a.head.find(' ') + 1));
    return a;
  }
  HttpAnswer read() {
    HttpAnswer a = read_head();
    if (a.status == 0) return a;
    if (const auto at = a.head.find("Content-Length: "); at != std::string::npos) {
      const auto length = static_cast<std::size_t>(std::stol(a.head.substr(at + 16)));
      while (held_.size() < length && receive()) {
      }
      a.body = take(length);
      return a;
    }
    for (;;) {  // chunked transfer encoding
      if (!wait_for("\r\n")) return a;
      const auto size = std::stoul(take(held_.find("\r\n") + 2), nullptr, 16);
      while (held_.size() < size + 2 && receive()) {
      }
      a.body += take(size + 2).substr(0, size);
      if (size == 0) return a;
    }
  }

 private:
  std::string take(std::size_t count) {
    const std::string part = held_.substr(0, count);
    held_.erase(0, count);
    return part;
  }
  bool receive() {
    pollfd p{socket_.fd(), POLLIN, 0};
    char part[4096];
    if (poll(&p, 1, kPatience) <= 0) return false;
    const ssize_t n = recv(socket_.fd(), part, sizeof part, 0);
    if (n > 0) held_.append(part, static_cast<std::size_t>(n));
    return n > 0;
  }

  static constexpr int kPatience = 120'000;  // milliseconds
  int port_;
  Socket socket_;
  std::string held_;
};

// Returns the JSON of a stream's events; expects that the last one is [DONE].
inline std::vector<Json> events(const std::string& body) {
  std::vector<Json> all;
  std::istringstream in(body);
  bool done = false;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    EXPECT_TRUE(line.starts_with("data: ") && !done) << line;
    done = line == "data: [DONE]";
    if (!done) all.push_back(Json::parse(line.substr(6)));
  }
  EXPECT_TRUE(done) << body;
  return all;
}

}  // namespace ft::test
