// Protection of what ranks send each other over TCP (distributed.encryption).
#pragma once
#include <cstdint>

#include "engine/core/words.h"

namespace ft {

// none: the handshake alone is authenticated (handshake.h). auth: every frame has a code of its bytes and its
// number, so that changed, dropped, repeated and moved frames are found; anybody can read them. tls: TLS 1.3,
// which also hides them. Keys of auth and tls are derived from the job's token, anew for each connection.
enum class Encryption : std::uint8_t { none, auth, tls };
constexpr auto words(Encryption) {
  using enum Encryption;
  return to_words<Encryption>({{none, "none"}, {auth, "auth"}, {tls, "tls"}});
}

}  // namespace ft
