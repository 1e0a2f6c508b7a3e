#include "engine/ranks/seal_trial.h"

#include <poll.h>

#include <algorithm>
#include <future>
#include <vector>

#include "engine/core/error.h"
#include "engine/ranks/seal.h"

namespace ft {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::chrono::seconds kPatience{20};

[[noreturn]] void fail(const char* what) { throw UserError(Exit::hardware, what); }

}  // namespace

double try_seal(Encryption encryption, std::int64_t bytes) {
  const Socket listener = listen_at({"127.0.0.1", 0});
  const auto deadline = Clock::now() + kPatience;
  Socket from = connect_to(local_address(listener), deadline, "this machine");
  if (!wait_for(listener.fd(), POLLIN, deadline)) fail("a connection over loopback does not come about");
  Socket to = accept_from(listener);
  const std::string token = random_token();
  const Hello hello{.nonce = random_nonce()};
  const Challenge challenge{.nonce = random_nonce()};
  const auto end = [&](Socket socket, End own) {
    return sealed(std::move(socket), encryption, own, token, hello, challenge, deadline, "the other end");
  };
  const std::vector<std::byte> piece(kPiece, std::byte{1});
  // Receives all bytes; returns the time at which the last arrived.
  auto received = std::async(std::launch::async, [&] {
    Channel channel = end(std::move(to), End::listener);
    std::vector<std::byte> in(kPiece);
    for (std::int64_t left = bytes; left > 0; left -= static_cast<std::int64_t>(in.size())) {
      if (!receive_all(channel, in.data(), in.size(), deadline)) fail("bytes over loopback do not arrive");
      if (in != piece) fail("bytes over loopback arrive changed");
    }
    return Clock::now();
  });
  Channel channel = end(std::move(from), End::guest);
  const auto start = Clock::now();
  for (std::int64_t left = bytes; left > 0; left -= static_cast<std::int64_t>(piece.size()))
    if (!send_all(channel, piece.data(), piece.size(), deadline)) fail("bytes over loopback cannot be sent");
  const double seconds = std::chrono::duration<double>(received.get() - start).count();
  return static_cast<double>(bytes) / std::max(seconds, 1e-9);
}

}  // namespace ft
