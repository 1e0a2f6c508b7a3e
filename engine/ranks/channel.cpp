#include "engine/ranks/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "engine/core/error.h"

namespace ft {
namespace {

// Repeats `move`, which moves some of the bytes that begin at an offset, until all are moved.
template <class Move>
bool move_all(const Channel& c, std::size_t bytes, short event, Clock::time_point deadline,
              const Move& move) {
  for (std::size_t at = 0; at < bytes;) {
    const std::ptrdiff_t n = move(at);
    if (n > 0)
      at += static_cast<std::size_t>(n);
    else if (n == 0)
      return errno = 0, false;
    else if ((errno != EAGAIN && errno != EINTR) || !wait_for(c.fd(), event, deadline))
      return false;
  }
  return true;
}

}  // namespace

std::ptrdiff_t Channel::send(std::span<const iovec> pieces) {
  if (seal_) return seal_->send(pieces);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  const ssize_t n = ::sendmsg(socket_.fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n > 0) sent_ += n;
  return n;
}

std::ptrdiff_t Channel::receive(void* to, std::size_t room) {
  return seal_ ? seal_->receive(to, room) : ::recv(socket_.fd(), to, room, MSG_DONTWAIT);
}

bool send_all(Channel& c, const void* data, std::size_t bytes, Clock::time_point deadline) {
  auto* from = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  return move_all(c, bytes, POLLOUT, deadline, [&](std::size_t at) {
    const iovec rest{from + at, bytes - at};
    return c.send({&rest, 1});
  });
}

bool receive_all(Channel& c, void* data, std::size_t bytes, Clock::time_point deadline) {
  auto* to = static_cast<std::byte*>(data);
  return move_all(c, bytes, POLLIN, deadline, [&](std::size_t at) { return c.receive(to + at, bytes - at); });
}

std::string loss_of(int problem) {
  if (problem == 0 || problem == ECONNRESET || problem == EPIPE) return "went away";
  if (problem == EBADMSG)
    return "is at the end of a connection on which bytes were changed, dropped or repeated "
           "(distributed.encryption found it)";
  return str("cannot be reached (", std::strerror(problem), ")");
}

}  // namespace ft
