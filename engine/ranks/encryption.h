// Protection of the bytes that ranks send over TCP (distributed.encryption).
#pragma once
#include <cstdint>

#include "engine/core/words.h"

namespace ft {

// none: only the handshake is authenticated (handshake.h). auth: a code of each frame's bytes and number
// reveals changed, dropped, repeated and moved frames; anybody can read the bytes. tls: TLS 1.3, which also
// hides the bytes. Each connection derives its own keys from the job's token.
enum class Encryption : std::uint8_t { none, auth, tls };
constexpr auto words(Encryption) {
  using enum Encryption;
  return to_words<Encryption>({{none, "none"}, {auth, "auth"}, {tls, "tls"}});
}

}  // namespace ft
