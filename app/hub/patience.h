// Repeated attempts: a trouble that may pass, and the waits between attempts.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

namespace ft::hub {

// A failure after which the same request may succeed: a broken connection, a server that is busy.
struct Trouble : std::runtime_error {
  explicit Trouble(const std::string& what, std::optional<double> seconds = {})
      : std::runtime_error(what), wait(seconds) {}
  std::optional<double> wait;  // seconds that the server asks to wait
};

// An address that the hub has signed is no longer taken. The hub signs a new one for the next attempt.
struct AddressExpired : Trouble {
  using Trouble::Trouble;
};

class Patience {
 public:
  // `first`: the wait after a first failure; each further failure in a row doubles it. `stop` is asked
  // while waiting. `most`: failures in a row that are too many.
  Patience(std::chrono::milliseconds first, std::function<bool()> stop, int most = 6);

  // Call when bytes arrive: failures are counted anew.
  void progressed() { failures_ = 0; }
  // Waits before the next attempt. Throws UserError (peer_lost) after too many failures in a row or if
  // the server asks to wait for more than ten minutes, and Stopped.
  void wait(const Trouble& trouble);

 private:
  std::chrono::milliseconds first_;
  std::function<bool()> stop_;
  int most_, failures_ = 0;
};

}  // namespace ft::hub
