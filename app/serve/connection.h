// One TCP connection of a client, with a limit of time and bytes for every request.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ft {

class Connection {
 public:
  struct Limits {
    std::int64_t bytes;  // of a request, its headers included
    std::chrono::seconds request, write, idle;
  };
  // Takes the socket. `stop`: nothing is read any more.
  Connection(int socket, const Limits& limits, const std::atomic<bool>& stop);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Waits for the first byte of the next request. False: none comes.
  bool wait_for_request();
  // At most `size` bytes; 0: the client has closed, -1: a limit, or an error.
  std::ptrdiff_t read(char* to, std::size_t size);
  std::ptrdiff_t write(const char* from, std::size_t size);
  bool gone() const;  // the client has closed
  // What is being answered is the last: the rest of the request is thrown away.
  void end() { ends_ = true; }
  int socket() const { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool ready(short event, Clock::time_point deadline) const;

  int socket_;
  Limits limits_;
  const std::atomic<bool>& stop_;
  Clock::time_point deadline_{};  // of the request that is being read
  std::int64_t left_ = 0;         // bytes that it may still have
  std::array<char, 4096> buffer_{};
  std::size_t at_ = 0, end_ = 0;  // what of the buffer has not been read
  bool ends_ = false;
};

}  // namespace ft
