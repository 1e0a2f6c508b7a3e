#include "engine/ranks/seal.h"

#include <poll.h>

#include <algorithm>

#include "engine/core/error.h"
#include "engine/ranks/mac_seal.h"
#include "engine/ranks/tls_seal.h"

namespace ft {
namespace {

FrameMac::Key half_of(const Proof& key) {
  FrameMac::Key half{};
  std::copy_n(key.begin(), half.size(), half.begin());
  return half;
}

std::unique_ptr<Seal> make_tls(const Socket& socket, End own, const Proof& key, Clock::time_point deadline,
                               const std::string& whom) {
  const TlsContext context = TlsContext::with_key();
  TlsConnection tls = own == End::guest ? TlsConnection::connecting(context, socket.fd(), key)
                                        : TlsConnection::listening(context, socket.fd(), key);
  for (;;) {
    const TlsConnection::Handshake now = tls.shake();
    if (now == TlsConnection::Handshake::done) return std::make_unique<TlsSeal>(std::move(tls));
    const bool waits = now != TlsConnection::Handshake::failed;
    if (waits && wait_for(socket.fd(), now == TlsConnection::Handshake::reads ? POLLIN : POLLOUT, deadline))
      continue;
    throw UserError(
        Exit::peer_lost,
        str(whom, ": no TLS connection (distributed.encryption) came about: ",
            waits ? std::string("the other end does not answer") : tls.problem(),
            "\n  bytes between the machines were changed or dropped, by a machine or a person between them"));
  }
}

}  // namespace

Channel sealed(Socket socket, Encryption encryption, End own, const std::string& token, const Hello& hello,
               const Challenge& challenge, Clock::time_point deadline, const std::string& whom) {
  const auto key = [&](const char* purpose) { return key_of_connection(token, purpose, hello, challenge); };
  std::unique_ptr<Seal> seal;
  if (encryption == Encryption::auth) {
    const FrameMac::Key guests = half_of(key("ft frames of the guest")),
                        listeners = half_of(key("ft frames of the listener"));
    seal = own == End::guest ? std::make_unique<MacSeal>(socket.fd(), guests, listeners)
                             : std::make_unique<MacSeal>(socket.fd(), listeners, guests);
  }
  if (encryption == Encryption::tls) seal = make_tls(socket, own, key("ft tls"), deadline, whom);
  return {std::move(socket), std::move(seal)};
}

std::int64_t seal_memory(Encryption encryption) {
  switch (encryption) {
    case Encryption::none:
      return 0;
    case Encryption::auth:
      return MacSeal::kMemory;
    case Encryption::tls:
      return TlsSeal::kMemory;
  }
  return 0;
}

std::int64_t seals_memory(Encryption encryption, int ranks) {
  return 2 * (ranks - 1) * seal_memory(encryption);
}

}  // namespace ft
