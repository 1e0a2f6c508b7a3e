// TCP connections between ranks. They are opened with a deadline, never shared, and closed with their owner.
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
  std::string host;  // host name or numeric address
  int port = 0;
};

// Listens on one address. port 0: any free port. Throws UserError (config) if the address is not this
// machine's or the port is taken.
Socket listen_at(const Address&);
Socket accept_from(const Socket& listener);  // empty if none is waiting
// Connects, retrying while nobody listens yet. Both ends send small messages at once (no delay) and notice
// within 14 s that the other end is gone even if nothing is sent (TCP's keepalive). Throws UserError (hang)
// at the deadline, naming `who`.
Socket connect_to(const Address&, Clock::time_point deadline, const std::string& who);

Address local_address(const Socket&);  // numeric
Address remote_address(int fd);        // numeric

// Returns the bytes sent but not acknowledged by the other end. Returns 0 if all are acknowledged, or if the
// other end has no room for more: a slow reader is not a cut, though TCP_USER_TIMEOUT treats it as one.
std::int64_t unacknowledged(int fd);
// Returns those bytes and the bytes that could not be sent at all: without a route, no byte is in flight.
std::int64_t unheard(int fd);
// Time without acknowledgement after which a connection counts as cut. Longer than TCP needs to recover from
// 8 s of silence: it retries after 0.2, 0.6, 1.4, 3, 6.2 and 12.6 s.
inline constexpr std::chrono::seconds kCut{13};

// Transfer all bytes, or return false at the deadline or when the other end closes.
bool send_all(const Socket&, const void* data, std::size_t bytes, Clock::time_point deadline);
bool receive_all(const Socket&, void* data, std::size_t bytes, Clock::time_point deadline);

// Returns the milliseconds until a time for poll(), at least 0.
int milliseconds_until(Clock::time_point);
// Waits for an event of poll(), POLLIN or POLLOUT. Returns false at the deadline.
bool wait_for(int fd, short event, Clock::time_point deadline);

}  // namespace ft
