#include "engine/ranks/socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include "engine/core/error.h"

namespace ft {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Found look_up(const Address& a, int flags) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int problem = getaddrinfo(a.host.c_str(), std::to_string(a.port).c_str(), &wanted, &found);
  if (problem != 0)
    throw UserError(Exit::config,
                    str("distributed.master_addr: ", printable(a.host), ": ", gai_strerror(problem)));
  return {found, &freeaddrinfo};
}

Socket make(const addrinfo& a) {
  return Socket(::socket(a.ai_family, a.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a.ai_protocol));
}

bool connected(const Socket& s, const addrinfo& a, Clock::time_point deadline) {
  if (::connect(s.fd(), a.ai_addr, a.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !wait_for(s.fd(), POLLOUT, deadline)) return false;
  int problem = 0;
  socklen_t size = sizeof problem;
  return getsockopt(s.fd(), SOL_SOCKET, SO_ERROR, &problem, &size) == 0 && problem == 0;
}

void set(const Socket& s, int level, int option, int value) {
  setsockopt(s.fd(), level, option, &value, sizeof value);
}

void tune(const Socket& s) {
  set(s, IPPROTO_TCP, TCP_NODELAY, 1);
  set(s, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(s, IPPROTO_TCP, TCP_KEEPIDLE, 5);  // seconds
  set(s, IPPROTO_TCP, TCP_KEEPINTVL, 3);
  set(s, IPPROTO_TCP, TCP_KEEPCNT, 3);
}

template <class Get>
Address address(int fd, Get get) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* any = reinterpret_cast<sockaddr*>(&at);
  if (get(fd, any, &size) != 0 || getnameinfo(any, size, host.data(), host.size(), port.data(), port.size(),
                                              NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return {};
  return {host.data(), std::stoi(port.data())};
}

}  // namespace

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

int milliseconds_until(Clock::time_point t) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(t - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

bool wait_for(int fd, short event, Clock::time_point deadline) {
  for (;;) {
    pollfd p{fd, event, 0};
    const int ready = ::poll(&p, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

Socket listen_at(const Address& a) {
  const Found found = look_up(a, AI_PASSIVE);
  Socket s = make(*found);
  const int yes = 1;  // allows a port that an earlier run has just left
  setsockopt(s.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(s.fd(), found->ai_addr, found->ai_addrlen) != 0 || ::listen(s.fd(), 128) != 0)
    throw UserError(Exit::config,
                    str("cannot listen at ", printable(a.host), " port ", a.port, ": ", std::strerror(errno),
                        "; distributed.master_addr and master_port set another address"));
  return s;
}

Socket accept_from(const Socket& listener) {
  Socket s(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (s) tune(s);
  return s;
}

Socket connect_to(const Address& a, Clock::time_point deadline, const std::string& who) {
  const Found found = look_up(a, 0);
  for (;;) {
    for (const addrinfo* one = found.get(); one; one = one->ai_next)
      if (Socket s = make(*one); s && connected(s, *one, deadline)) return tune(s), std::move(s);
    if (Clock::now() >= deadline) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  throw UserError(Exit::hang, str(who, " does not answer at ", printable(a.host), " port ", a.port,
                                  "\n  is it started, and is the port open?"));
}

Address local_address(const Socket& s) { return address(s.fd(), ::getsockname); }
Address remote_address(int fd) { return address(fd, ::getpeername); }

std::int64_t unacknowledged(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 || info.tcpi_unacked == 0) return 0;
  return unheard(fd);
}

std::int64_t unheard(int fd) {
  int bytes = 0;
  return ::ioctl(fd, TIOCOUTQ, &bytes) == 0 ? bytes : 0;
}

bool send_all(const Socket& s, const void* data, std::size_t bytes, Clock::time_point deadline) {
  const auto* at = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t n = ::send(s.fd(), at, bytes, MSG_NOSIGNAL);
    if (n > 0) {
      at += n;
      bytes -= static_cast<std::size_t>(n);
    } else if ((errno != EAGAIN && errno != EINTR) || !wait_for(s.fd(), POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool receive_all(const Socket& s, void* data, std::size_t bytes, Clock::time_point deadline) {
  auto* at = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t n = ::recv(s.fd(), at, bytes, 0);
    if (n > 0) {
      at += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR) || !wait_for(s.fd(), POLLIN, deadline)) {
      return false;
    }
  }
  return true;
}

}  // namespace ft
