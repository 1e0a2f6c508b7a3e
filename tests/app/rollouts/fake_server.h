// A server whose replies a test writes byte by byte, also wrong ones.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace ft::test {

// A client's connection, after its request has arrived.
class FakeConnection {
 public:
  FakeConnection(int socket, std::string arrived, const std::atomic<bool>& over)
      : request(std::move(arrived)), socket_(socket), over_(over) {}
  const std::string request;  // head and body

  void send(const std::string& bytes) const {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n <= 0) return;
      at += static_cast<std::size_t>(n);
    }
  }
  void reply(int status, const std::string& body, const std::string& more = "") const {
    send("HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + more + "\r\n" + body);
  }
  // Waits until the test is over or the client has gone.
  void hang() const {
    pollfd p{socket_, POLLRDHUP, 0};
    while (!over_ && ::poll(&p, 1, 10) == 0) {
    }
  }
  bool over() const { return over_; }

 private:
  int socket_;
  const std::atomic<bool>& over_;
};

class FakeServer {
 public:
  // Runs for each connection in a new thread. number: 0, 1, ... in the order of arrival.
  using Handler = std::function<void(const FakeConnection&, int number)>;

  explicit FakeServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 64), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept(); });
  }
  ~FakeServer() {
    over_ = true;
    acceptor_.join();
    for (std::thread& t : threads_) t.join();
    ::close(listener_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int connections() const { return connections_; }

 private:
  void accept() {
    while (!over_) {
      pollfd p{listener_, POLLIN, 0};
      if (::poll(&p, 1, 10) <= 0) continue;
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) continue;
      threads_.emplace_back([this, socket, number = connections_++] {
        serve(socket, number);
        ::close(socket);
      });
    }
  }
  void serve(int socket, int number) const {
    std::string request;
    std::size_t wanted = std::string::npos;
    while (!over_ && request.size() < wanted) {
      pollfd p{socket, POLLIN, 0};
      if (::poll(&p, 1, 10) <= 0) continue;
      char part[4096];
      const ssize_t n = ::recv(socket, part, sizeof part, 0);
      if (n <= 0) return;
      request.append(part, static_cast<std::size_t>(n));
      const std::size_t end = request.find("\r\n\r\n"), length = request.find("Content-Length: ");
      if (end != std::string::npos)
        wanted = end + 4 + (length < end ? std::stoul(request.substr(length + 16)) : 0);
    }
    handler_(FakeConnection(socket, request, over_), number);
  }

  Handler handler_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> over_{false};
  std::atomic<int> connections_{0};
  std::thread acceptor_;
  std::vector<std::thread> threads_;
};

}  // namespace ft::test
