#include "engine/ranks/tls_seal.h"

#include <algorithm>
#include <cstring>

namespace ft {

// Sends one piece from its place in memory. Copies several pieces, a message's header and first bytes, into
// one record.
std::ptrdiff_t TlsSeal::send(std::span<const iovec> pieces) {
  if (held_ == 0 && pieces.size() == 1) return tls_.send(pieces[0].iov_base, pieces[0].iov_len);
  if (held_ == 0)
    for (const iovec& p : pieces) {
      const std::size_t count = std::min(p.iov_len, kRecord - held_);
      if (count > 0) std::memcpy(gathered_.data() + held_, p.iov_base, count);
      held_ += count;
    }
  const std::ptrdiff_t n = tls_.send(gathered_.data(), held_);
  if (n > 0) held_ = 0;
  return n;
}

}  // namespace ft
