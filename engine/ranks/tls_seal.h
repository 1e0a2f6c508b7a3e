// distributed.encryption=tls: TLS 1.3.
#pragma once
#include <vector>

#include "engine/crypto/tls.h"
#include "engine/ranks/channel.h"

namespace ft {

class TlsSeal final : public Seal {
 public:
  static constexpr std::size_t kRecord = 16 << 10;  // bytes that a record carries
  static constexpr std::int64_t kMemory = TlsConnection::kMemory + kRecord;

  // The handshake of `tls` is done.
  explicit TlsSeal(TlsConnection tls) : tls_(std::move(tls)), gathered_(kRecord) {}

  std::ptrdiff_t send(std::span<const iovec>) override;
  std::ptrdiff_t receive(void* to, std::size_t room) override { return tls_.receive(to, room); }
  std::int64_t sent() const override { return tls_.sent(); }

 private:
  TlsConnection tls_;
  std::vector<std::byte> gathered_;  // a record of several pieces
  std::size_t held_ = 0;             // bytes of gathered_ still to send
};

}  // namespace ft
