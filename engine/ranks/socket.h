// TCP connections between ranks: opened with a deadline, never shared, closed with their owner.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

namespace ft {

using Clock = std::chrono::steady_clock;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

struct Address {
  std::string host;  // a name or a number
  int port = 0;
};

// Listens on one address; port 0: any free one. UserError(Exit::config) when the address is not this
// machine's or the port is taken.
Socket listen_at(const Address&);
Socket accept_from(const Socket& listener);  // empty: none is waiting
// Both ends send small messages at once (no delay) and notice within 14 s that the other one is gone even if
// nothing is sent (TCP's keepalive). Retries while nobody listens yet. UserError(Exit::hang) at the deadline,
// naming `who`.
Socket connect_to(const Address&, Clock::time_point deadline, const std::string& who);

Address local_address(const Socket&);   // numbers
Address remote_address(const Socket&);  // numbers

// Bytes under way on a connection that the other end has not acknowledged; 0 where it has, or has no room for
// more: a slow reader is not a cut, which TCP_USER_TIMEOUT takes it for.
std::int64_t unacknowledged(int fd);
// The same and what could not be sent at all: without a route nothing is under way.
std::int64_t unheard(int fd);
// As long as nothing must have been acknowledged for a connection to be called cut. Longer than TCP needs to
// come back after 8 s of silence: it tries again after 0.2, 0.6, 1.4, 3, 6.2 and 12.6 s.
inline constexpr std::chrono::seconds kCut{13};

// Everything or, at the deadline or when the other end closes, false.
bool send_all(const Socket&, const void* data, std::size_t bytes, Clock::time_point deadline);
bool receive_all(const Socket&, void* data, std::size_t bytes, Clock::time_point deadline);

// Milliseconds until then for poll(), at least 0.
int milliseconds_until(Clock::time_point);

}  // namespace ft
