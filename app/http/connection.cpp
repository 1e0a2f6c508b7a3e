#include "app/http/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace ft {
namespace {

constexpr std::int64_t kStopLook = 100;  // milliseconds between checks that the server still runs
constexpr std::string_view kPlainRefused =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 34\r\nConnection: close\r\n\r\n"
    "this port takes HTTPS, not HTTP.\r\n";

}  // namespace

Connection::Connection(int socket, const Limits& limits, const std::atomic<bool>& stop, const TlsContext* tls)
    : socket_(socket), limits_(limits), stop_(stop) {
  if (tls) tls_ = TlsConnection::serving(*tls, socket);
}

// Closes the connection after reading the rest of the request. Closing earlier would discard the answer of a
// client that is still sending.
Connection::~Connection() {
  constexpr std::chrono::seconds kPatience{2};
  if (tls_) tls_->say_goodbye();
  shutdown(socket_, SHUT_WR);
  const auto until = Clock::now() + kPatience;
  while (ends_ && ready(POLLIN, until) && recv(socket_, buffer_.data(), buffer_.size(), 0) > 0) {
  }
  close(socket_);
}

bool Connection::ready(short event, Clock::time_point deadline) const {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || (event == POLLIN && stop_)) return false;
    pollfd p{socket_, event, 0};
    const int got = poll(&p, 1, static_cast<int>(std::min<std::int64_t>(left, kStopLook)));
    if (got > 0) return true;
    if (got < 0 && errno != EINTR) return false;
  }
}

bool Connection::greet() {
  if (!tls_) return true;
  constexpr char kHandshake = 0x16;  // TLS's type of the first record
  const auto deadline = Clock::now() + limits_.request;
  char first = 0;
  if (!ready(POLLIN, deadline) || recv(socket_, &first, 1, MSG_PEEK | MSG_DONTWAIT) != 1) return false;
  if (first != kHandshake) {
    tls_.reset();
    end();
    write(kPlainRefused.data(), kPlainRefused.size());
    return false;
  }
  for (;;) {
    switch (tls_->shake()) {
      case TlsConnection::Handshake::done:
        return true;
      case TlsConnection::Handshake::failed:
        return false;
      case TlsConnection::Handshake::reads:
        if (!ready(POLLIN, deadline)) return false;
        break;
      case TlsConnection::Handshake::writes:
        if (!ready(POLLOUT, deadline)) return false;
    }
  }
}

bool Connection::wait_for_request() {
  if (ends_) return false;
  if (at_ == end_ && !(tls_ && tls_->holds()) && !ready(POLLIN, Clock::now() + limits_.idle)) return false;
  deadline_ = Clock::now() + limits_.request;
  left_ = limits_.bytes;
  return true;
}

std::ptrdiff_t Connection::receive() {
  for (;;) {
    const std::ptrdiff_t got = tls_ ? tls_->receive(buffer_.data(), buffer_.size())
                                    : recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (got >= 0 || (errno != EAGAIN && errno != EINTR)) return got;
    if (!ready(POLLIN, deadline_)) return -1;
  }
}

std::ptrdiff_t Connection::read(char* to, std::size_t size) {
  if (at_ == end_) {
    if (stop_ || Clock::now() > deadline_) return -1;
    const std::ptrdiff_t got = receive();
    if (got <= 0) return got;
    at_ = 0;
    end_ = static_cast<std::size_t>(got);
  }
  const std::size_t count = std::min(size, end_ - at_);
  left_ -= static_cast<std::int64_t>(count);
  if (left_ < 0) return -1;
  std::memcpy(to, buffer_.data() + at_, count);
  at_ += count;
  return static_cast<std::ptrdiff_t>(count);
}

std::ptrdiff_t Connection::write(const char* from, std::size_t size) {
  const auto deadline = Clock::now() + limits_.write;
  for (;;) {
    const std::ptrdiff_t sent =
        tls_ ? tls_->send(from, size) : send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0 || (errno != EAGAIN && errno != EINTR)) return sent;
    if (!ready(POLLOUT, deadline)) return -1;
  }
}

bool Connection::gone() const {
  if (tls_) {  // messages of TLS itself may precede the end
    pollfd p{socket_, POLLRDHUP, 0};
    return poll(&p, 1, 0) > 0;
  }
  char byte = 0;
  const ssize_t got = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace ft
