// A relay between two ranks: passes their bytes on, and changes them at one place.
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <list>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "engine/core/error.h"
#include "engine/ranks/socket.h"

namespace ft::test {

struct WireFault {
  enum class Kind { none, flip, drop, repeat, swap, cut, delay, stall, insert } kind = Kind::none;
  int connection = 0;     // by the order of opening: 0 for data, 1 for heartbeats
  bool to_root = true;    // the direction
  std::size_t at = 0;     // bytes of that direction before the fault
  std::size_t bytes = 1;  // dropped, repeated, or swapped with as many that follow; flip: the bit of one byte
  std::string words = {};   // insert: these
  int milliseconds = 1500;  // delay: of the bytes from `at` on
};

class Relay {
 public:
  // Listens at `at` and connects to `root`. net: file of the network namespace to work in; empty: this one.
  Relay(const Address& at, Address root, WireFault fault, std::string net = "")
      : root_(std::move(root)), fault_(std::move(fault)), net_(std::move(net)) {
    std::thread([&] {
      enter();
      listener_ = listen_at(at);
    }).join();
    accepting_ = std::thread([this] { accept(); });
  }
  ~Relay() {
    stop_ = true;
    accepting_.join();
    for (std::thread& t : pumps_) t.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  Address address() const { return local_address(listener_); }
  bool done() const { return done_; }  // the fault has happened

 private:
  struct Pair {
    Socket guest, root;
  };
  using Milliseconds = std::chrono::milliseconds;

  void enter() const {  // sockets belong to the namespace of the thread that makes them
    if (net_.empty()) return;
    const Socket net(::open(net_.c_str(), O_RDONLY | O_CLOEXEC));
    if (::setns(net.fd(), CLONE_NEWNET) != 0) throw std::runtime_error("no such network namespace");
  }
  void accept() {
    enter();
    for (int number = 0; !stop_; ++number) {
      Socket guest;
      while (!stop_ && !(guest = accept_from(listener_))) std::this_thread::sleep_for(Milliseconds(2));
      if (stop_) return;
      Socket root;
      try {
        root = connect_to(root_, Clock::now() + std::chrono::seconds(20), "rank 0");
      } catch (const UserError&) {  // rank 0 has ended: the guest sees that its connection closes
        continue;
      }
      Pair& pair = pairs_.emplace_back();
      pair.guest = std::move(guest);
      pair.root = std::move(root);
      for (const bool to_root : {true, false})
        pumps_.emplace_back([this, &pair, number, to_root] {
          const bool faulty = number == fault_.connection && to_root == fault_.to_root;
          pump(to_root ? pair.guest : pair.root, to_root ? pair.root : pair.guest, faulty);
        });
    }
  }
  // Returns the next bytes to pass on: all before the fault, then none until all bytes that the fault needs
  // have come, then the others.
  std::string pass(std::string& held, std::size_t& passed, bool& waiting) {
    std::string now;
    const std::size_t window = fault_.kind == WireFault::Kind::swap ? 2 * fault_.bytes : fault_.bytes;
    if (waiting && passed == fault_.at && held.size() >= window) {
      change(held);
      waiting = false;
      done_ = true;
    }
    const std::size_t most = waiting && fault_.at >= passed ? fault_.at - passed : held.size();
    now = held.substr(0, most);
    held.erase(0, now.size());
    passed += now.size();
    return now;
  }
  void change(std::string& held) const {  // its first bytes
    switch (fault_.kind) {
      case WireFault::Kind::flip:
        held[0] = static_cast<char>(held[0] ^ 0x10);
        return;
      case WireFault::Kind::drop:
        held.erase(0, fault_.bytes);
        return;
      case WireFault::Kind::repeat:
        held.insert(0, held.substr(0, fault_.bytes));
        return;
      case WireFault::Kind::swap:
        held.insert(0, held.substr(fault_.bytes, fault_.bytes));
        held.erase(2 * fault_.bytes, fault_.bytes);
        return;
      case WireFault::Kind::insert:
        held.insert(0, fault_.words);
        return;
      case WireFault::Kind::delay:
        std::this_thread::sleep_for(Milliseconds(fault_.milliseconds));
        return;
      case WireFault::Kind::cut:
        held.clear();
        return;
      case WireFault::Kind::none:
      case WireFault::Kind::stall:
        return;
    }
  }
  void pump(const Socket& from, const Socket& to, bool faulty) {
    bool waiting = faulty && fault_.kind != WireFault::Kind::none;
    std::string held, room(1 << 16, 0);
    std::size_t passed = 0;
    for (ssize_t n = 1; n != 0 && !stop_;) {
      if (!wait_for(from.fd(), POLLIN, Clock::now() + Milliseconds(50))) continue;
      n = ::recv(from.fd(), room.data(), room.size(), 0);
      if (n < 0 && errno == EAGAIN) continue;
      if (n <= 0) break;
      held.append(room.data(), static_cast<std::size_t>(n));
      for (bool more = true; more;) {
        const bool before = waiting;
        const std::string now = pass(held, passed, waiting);
        if (!send_all(to, now.data(), now.size(), Clock::now() + std::chrono::seconds(20))) n = 0;
        const bool happened = before && !waiting;
        if (happened && fault_.kind == WireFault::Kind::cut) n = 0;
        while (happened && fault_.kind == WireFault::Kind::stall && !stop_)
          std::this_thread::sleep_for(Milliseconds(20));
        more = n != 0 && !now.empty();
      }
    }
    for (const Socket* s : {&from, &to}) ::shutdown(s->fd(), SHUT_RDWR);
  }

  Address root_;
  WireFault fault_;
  std::string net_;
  Socket listener_;
  std::atomic<bool> stop_{false}, done_{false};
  std::list<Pair> pairs_;
  std::list<std::thread> pumps_;
  std::thread accepting_;
};

}  // namespace ft::test
