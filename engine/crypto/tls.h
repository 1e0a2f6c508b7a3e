// TLS over a nonblocking socket, by OpenSSL. Either both ends share a secret key, or the listening end has a
// certificate (TLS 1.2 or 1.3). A key is used as a pre-shared key of TLS 1.3 (RFC 8446) with a Diffie-Hellman
// exchange, so that a key that leaks later does not open recorded traffic.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace ft {

using TlsKey = std::array<std::byte, 32>;

// Settings of any number of connections. Copies share them.
class TlsContext {
 public:
  static TlsContext with_key();
  // certificate: a PEM file of the server's certificate and of the certificates between it and its root. key:
  // a PEM file of its private key. Throws UserError (config) and names the file if one cannot be read, the
  // certificate has expired, or the key is encrypted or belongs to another certificate.
  static TlsContext of_server(const std::string& certificate, const std::string& key);

  struct Parts;
  Parts& parts() const { return *parts_; }

 private:
  explicit TlsContext(std::shared_ptr<Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<Parts> parts_;
};

class TlsConnection {
 public:
  // Full records (16 KiB) that a key protects before the sender changes it; AES-GCM's limit is 2^24.5 (RFC
  // 8446, 5.5).
  static constexpr std::int64_t kRecordsOfKey = std::int64_t{1} << 22;
  // Bytes of a connection and its context: OpenSSL's, rounded up.
  static constexpr std::int64_t kMemory = 64 << 10;

  static TlsConnection connecting(const TlsContext&, int socket, const TlsKey&,
                                  std::int64_t records_of_key = kRecordsOfKey);
  static TlsConnection listening(const TlsContext&, int socket, const TlsKey&,
                                 std::int64_t records_of_key = kRecordsOfKey);
  static TlsConnection serving(const TlsContext& of_server, int socket);
  TlsConnection(TlsConnection&&) noexcept;
  TlsConnection& operator=(TlsConnection&&) noexcept;
  ~TlsConnection();

  enum class Handshake : std::uint8_t { done, reads, writes, failed };
  // Continues the handshake as far as it goes without waiting. `reads`, `writes`: call it again when the
  // socket can be read or written.
  Handshake shake();
  std::string problem() const;  // of a failed handshake, for people

  // Work as send(2) and recv(2) of a nonblocking socket. errno is EBADMSG if bytes from the other end were
  // changed, dropped, repeated or moved, or are not TLS. After EAGAIN, call send() again with the same bytes;
  // more may follow them.
  std::ptrdiff_t send(const void* from, std::size_t bytes);
  std::ptrdiff_t receive(void* to, std::size_t room);
  bool holds() const;         // true if receive() returns bytes that have already arrived
  void say_goodbye();         // tells the other end that no more follows
  std::int64_t sent() const;  // bytes that the socket took, records and handshake

  struct Parts;

 private:
  explicit TlsConnection(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

std::string tls_library_version();  // "OpenSSL 3.0.19"

}  // namespace ft
