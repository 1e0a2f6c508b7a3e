#include "app/http/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ft {
namespace {

constexpr std::int64_t kStopLook = 100;  // milliseconds between checks that the server still runs

}  // namespace

Connection::Connection(int socket, const Limits& limits, const std::atomic<bool>& stop)
    : socket_(socket), limits_(limits), stop_(stop) {}

// Closes the connection after reading the rest of the request. Closing earlier would discard the answer of a
// client that is still sending.
Connection::~Connection() {
  constexpr std::chrono::seconds kPatience{2};
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

bool Connection::wait_for_request() {
  if (ends_) return false;
  if (at_ == end_ && !ready(POLLIN, Clock::now() + limits_.idle)) return false;
  deadline_ = Clock::now() + limits_.request;
  left_ = limits_.bytes;
  return true;
}

std::ptrdiff_t Connection::read(char* to, std::size_t size) {
  if (at_ == end_) {
    if (!ready(POLLIN, deadline_)) return -1;
    const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), 0);
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
  if (!ready(POLLOUT, Clock::now() + limits_.write)) return -1;
  return send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool Connection::gone() const {
  char byte = 0;
  const ssize_t got = recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

}  // namespace ft
