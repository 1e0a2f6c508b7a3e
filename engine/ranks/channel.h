// A connection between two ranks after their handshake: a socket, and the seal that protects its bytes.
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/ranks/encryption.h"
#include "engine/ranks/socket.h"

namespace ft {

// Seals the bytes that a rank sends, and opens the bytes that it receives.
class Seal {
 public:
  virtual ~Seal() = default;
  // Work as Channel's functions.
  virtual std::ptrdiff_t send(std::span<const iovec>) = 0;
  virtual std::ptrdiff_t receive(void* to, std::size_t room) = 0;
  virtual std::int64_t sent() const = 0;
};

class Channel {
 public:
  Channel() = default;
  Channel(Socket socket, std::unique_ptr<Seal> seal = nullptr)  // null: plain bytes
      : socket_(std::move(socket)), seal_(std::move(seal)) {}

  int fd() const { return socket_.fd(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }

  // Work as sendmsg(2) and recv(2), and never wait: return the bytes moved, 0 if the other end has closed, or
  // -1 with errno. EBADMSG: the seal is broken, and stays broken. send() counts bytes once the socket has
  // taken their complete frame; after EAGAIN, call it again with the same bytes, which more may follow.
  // receive() returns only bytes whose seal is intact; EAGAIN: it holds none that have arrived.
  std::ptrdiff_t send(std::span<const iovec> pieces);
  std::ptrdiff_t receive(void* to, std::size_t room);
  std::int64_t sent() const { return seal_ ? seal_->sent() : sent_; }  // bytes that the socket took

 private:
  Socket socket_;
  std::unique_ptr<Seal> seal_;
  std::int64_t sent_ = 0;
};

// Transfer all bytes, or return false at the deadline, when the other end closes, or when the seal is broken
// (errno is then EBADMSG).
bool send_all(Channel&, const void* data, std::size_t bytes, Clock::time_point deadline);
bool receive_all(Channel&, void* data, std::size_t bytes, Clock::time_point deadline);

// Returns what became of a rank whose connection gave this errno, 0 if it closed: "went away". Continues a
// sentence that begins with the rank's name.
std::string loss_of(int problem);

}  // namespace ft
