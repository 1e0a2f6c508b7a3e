// A client's TCP connection, over TLS if the server has a certificate, with limits of time and bytes for each
// request.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/crypto/tls.h"

namespace ft {

class Connection {
 public:
  struct Limits {
    std::int64_t bytes;  // bytes of a request, headers included
    std::chrono::seconds request, write, idle;
  };
  // Takes over the socket. When `stop` becomes true, nothing more is read. tls: null for plain HTTP.
  Connection(int socket, const Limits& limits, const std::atomic<bool>& stop, const TlsContext* tls);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Makes the TLS connection. Returns false if the client makes none; answers a client of plain HTTP with an
  // error.
  bool greet();
  // Waits for the first byte of the next request. Returns false if there is none.
  bool wait_for_request();
  // Reads at most `size` bytes. Returns 0 if the client has closed, -1 at a limit or an error.
  std::ptrdiff_t read(char* to, std::size_t size);
  std::ptrdiff_t write(const char* from, std::size_t size);
  bool gone() const;  // the client has closed
  // Makes the current request the last one. Discards the rest of its body.
  void end() { ends_ = true; }
  int socket() const { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool ready(short event, Clock::time_point deadline) const;
  std::ptrdiff_t receive();  // fills the buffer; as recv(2)

  int socket_;
  std::optional<TlsConnection> tls_;
  Limits limits_;
  const std::atomic<bool>& stop_;
  Clock::time_point deadline_{};  // deadline of the request that is being read
  std::int64_t left_ = 0;         // bytes that it may still have
  std::array<char, 4096> buffer_{};
  std::size_t at_ = 0, end_ = 0;  // [at_, end_): bytes of the buffer that are not read yet
  bool ends_ = false;
};

}  // namespace ft
