#include "engine/crypto/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "engine/core/error.h"

namespace ft {
namespace {

constexpr const char* kCipher = "TLS_AES_128_GCM_SHA256";
constexpr std::array<unsigned char, 2> kCipherNumber{0x13, 0x01};
constexpr const char* kIdentity = "ft";

void require_done(bool done) { require(done, "TLS of OpenSSL's"); }

// Returns the first error in OpenSSL's queue, and empties the queue.
std::string first_error() {
  const unsigned long code = ERR_peek_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason ? reason : "";
}

}  // namespace

struct TlsContext::Parts {
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> own{SSL_CTX_new(TLS_method()), SSL_CTX_free};
};

struct TlsConnection::Parts {
  Parts(const TlsContext& c, int fd, const TlsKey& k, std::int64_t records);
  // Returns -1 with errno for the result of a call that moved nothing; 0: the other end has closed.
  std::ptrdiff_t failed(int result);

  TlsContext context;  // outlives the connection
  int socket;
  TlsKey key;
  std::int64_t records_of_key, records = 0;
  std::int64_t sent = 0;
  int error = 0;         // errno of the last call for the socket; 0: it closed or moved bytes
  bool by_key = false;   // the other end has to prove that it has the key
  bool retries = false;  // a record waits for the socket
  bool broken = false;   // no further byte is trusted
  std::string problem;
  std::unique_ptr<SSL, decltype(&SSL_free)> own{nullptr, SSL_free};
};

namespace {

TlsConnection::Parts& parts_of(BIO* bio) { return *static_cast<TlsConnection::Parts*>(BIO_get_data(bio)); }
TlsConnection::Parts& parts_of(SSL* ssl) {
  return *static_cast<TlsConnection::Parts*>(SSL_get_app_data(ssl));
}

// Functions that OpenSSL calls for the socket. Its default ones would raise SIGPIPE.
int write_socket(BIO* bio, const char* from, int bytes) {
  TlsConnection::Parts& parts = parts_of(bio);
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(parts.socket, from, static_cast<std::size_t>(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
  parts.error = n < 0 ? errno : 0;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  if (n > 0) parts.sent += n;
  return static_cast<int>(n);
}

int read_socket(BIO* bio, char* to, int room) {
  TlsConnection::Parts& parts = parts_of(bio);
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::recv(parts.socket, to, static_cast<std::size_t>(room), MSG_DONTWAIT);
  parts.error = n < 0 ? errno : 0;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  return static_cast<int>(n);
}

long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

const BIO_METHOD* socket_method() {
  static const std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)> method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ft");
    require_done(made && BIO_meth_set_write(made, write_socket) == 1 &&
                 BIO_meth_set_read(made, read_socket) == 1 && BIO_meth_set_ctrl(made, control_socket) == 1);
    return std::unique_ptr<BIO_METHOD, decltype(&BIO_meth_free)>(made, BIO_meth_free);
  }();
  return method.get();
}

// Returns a session made from the connection's key.
SSL_SESSION* session_of_key(SSL* ssl) {
  const TlsKey& key = parts_of(ssl).key;
  SSL_SESSION* session = SSL_SESSION_new();
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kCipherNumber.data());
  require_done(session && cipher &&
               SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()),
                                           key.size()) == 1 &&
               SSL_SESSION_set_cipher(session, cipher) == 1 &&
               SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1);
  return session;
}

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** name, std::size_t* size, SSL_SESSION** session) {
  *name = reinterpret_cast<const unsigned char*>(kIdentity);
  *size = std::strlen(kIdentity);
  *session = session_of_key(ssl);
  return 1;
}

int find_key(SSL* ssl, const unsigned char*, std::size_t, SSL_SESSION** session) {
  *session = session_of_key(ssl);
  return 1;
}

// Refuses to give OpenSSL the password of an encrypted key. By default OpenSSL asks at the terminal.
int no_password(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return 0;
}

void check_file(const char* option, const std::string& file) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> there(std::fopen(file.c_str(), "re"), std::fclose);
  if (!there) throw UserError(Exit::config, str(option, " ", printable(file), ": ", std::strerror(errno)));
}

[[noreturn]] void refuse(const char* option, const std::string& file, const std::string& what) {
  throw UserError(Exit::config, str(option, " ", printable(file), ": ", what));
}

}  // namespace

TlsContext TlsContext::with_key() {
  auto parts = std::make_shared<Parts>();
  SSL_CTX* own = parts->own.get();
  require_done(own && SSL_CTX_set_min_proto_version(own, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_max_proto_version(own, TLS1_3_VERSION) == 1 &&
               SSL_CTX_set_ciphersuites(own, kCipher) == 1 && SSL_CTX_set_num_tickets(own, 0) == 1);
  SSL_CTX_set_psk_use_session_callback(own, offer_key);
  SSL_CTX_set_psk_find_session_callback(own, find_key);
  SSL_CTX_set_session_cache_mode(own, SSL_SESS_CACHE_OFF);
  return TlsContext(std::move(parts));
}

TlsContext TlsContext::of_server(const std::string& certificate, const std::string& key) {
  constexpr const char *kCert = "--tls-cert", *kKey = "--tls-key";
  check_file(kCert, certificate);
  check_file(kKey, key);
  auto parts = std::make_shared<Parts>();
  SSL_CTX* own = parts->own.get();
  require_done(own && SSL_CTX_set_min_proto_version(own, TLS1_2_VERSION) == 1);
  SSL_CTX_set_session_cache_mode(own, SSL_SESS_CACHE_OFF);
  bool encrypted = false;
  SSL_CTX_set_default_passwd_cb(own, no_password);
  SSL_CTX_set_default_passwd_cb_userdata(own, &encrypted);
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(own, certificate.c_str()) != 1)
    refuse(kCert, certificate, str("is no certificate in PEM (", first_error(), ")"));
  if (X509_cmp_current_time(X509_get0_notAfter(SSL_CTX_get0_certificate(own))) < 0)
    refuse(kCert, certificate, "the certificate has expired");
  const bool fits = SSL_CTX_use_PrivateKey_file(own, key.c_str(), SSL_FILETYPE_PEM) == 1;
  const std::string why = first_error();
  if (encrypted)
    refuse(kKey, key,
           str("the key is encrypted; openssl pkey -in ", printable(key), " -out FILE decrypts it"));
  if (!fits && why == "key values mismatch")
    refuse(kKey, key, str("is not the key of the certificate in ", printable(certificate)));
  if (!fits) refuse(kKey, key, str("is no private key in PEM (", why, ")"));
  SSL_CTX_set_default_passwd_cb_userdata(own, nullptr);
  return TlsContext(std::move(parts));
}

TlsConnection::Parts::Parts(const TlsContext& c, int fd, const TlsKey& k, std::int64_t most)
    : context(c), socket(fd), key(k), records_of_key(most), own(SSL_new(c.parts().own.get()), SSL_free) {
  BIO* bio = BIO_new(socket_method());
  require_done(own && bio);
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(own.get(), bio, bio);
  SSL_set_app_data(own.get(), this);
  SSL_set_mode(own.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_set_options(own.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
}

TlsConnection::TlsConnection(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
TlsConnection::TlsConnection(TlsConnection&&) noexcept = default;
TlsConnection& TlsConnection::operator=(TlsConnection&&) noexcept = default;
TlsConnection::~TlsConnection() = default;

TlsConnection TlsConnection::connecting(const TlsContext& c, int socket, const TlsKey& key,
                                        std::int64_t records) {
  TlsConnection t(std::make_unique<Parts>(c, socket, key, records));
  t.parts_->by_key = true;
  // Trusts no certificate, so that none can replace the key.
  SSL_set_verify(t.parts_->own.get(), SSL_VERIFY_PEER, nullptr);
  SSL_set_connect_state(t.parts_->own.get());
  return t;
}

TlsConnection TlsConnection::listening(const TlsContext& c, int socket, const TlsKey& key,
                                       std::int64_t records) {
  TlsConnection t(std::make_unique<Parts>(c, socket, key, records));
  t.parts_->by_key = true;
  SSL_set_accept_state(t.parts_->own.get());
  return t;
}

TlsConnection TlsConnection::serving(const TlsContext& of_server, int socket) {
  TlsConnection t(std::make_unique<Parts>(of_server, socket, TlsKey{}, kRecordsOfKey));
  SSL_set_accept_state(t.parts_->own.get());
  return t;
}

std::ptrdiff_t TlsConnection::Parts::failed(int result) {
  switch (SSL_get_error(own.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SYSCALL:
      broken = true;
      errno = error;
      ERR_clear_error();
      return error == 0 ? 0 : -1;
    default:
      broken = true;
      problem = first_error();
      errno = error = EBADMSG;
      return -1;
  }
}

TlsConnection::Handshake TlsConnection::shake() {
  SSL* own = parts_->own.get();
  if (parts_->broken) return Handshake::failed;
  ERR_clear_error();
  const int result = SSL_do_handshake(own);
  if (result == 1) {
    if (!parts_->by_key || SSL_session_reused(own) == 1) return Handshake::done;
    parts_->broken = true;
    parts_->error = EBADMSG;
    parts_->problem = "the other end did not use the key";
    return Handshake::failed;
  }
  if (parts_->failed(result) < 0 && errno == EAGAIN)
    return SSL_want_write(own) ? Handshake::writes : Handshake::reads;
  parts_->broken = true;
  return Handshake::failed;
}

std::string TlsConnection::problem() const {
  if (!parts_->problem.empty()) return parts_->problem;
  return parts_->error == 0 ? "the other end closed the connection" : std::strerror(parts_->error);
}

std::ptrdiff_t TlsConnection::send(const void* from, std::size_t bytes) {
  SSL* own = parts_->own.get();
  if (parts_->broken) return errno = parts_->error ? parts_->error : EPIPE, -1;
  ERR_clear_error();
  if (!parts_->retries && parts_->records >= parts_->records_of_key) {
    require_done(SSL_key_update(own, SSL_KEY_UPDATE_NOT_REQUESTED) == 1);
    parts_->records = 0;
  }
  std::size_t done = 0;
  const int result = SSL_write_ex(own, from, bytes, &done);
  if (result == 1) {
    parts_->retries = false;
    ++parts_->records;
    return static_cast<std::ptrdiff_t>(done);
  }
  const std::ptrdiff_t moved = parts_->failed(result);
  parts_->retries = moved < 0 && errno == EAGAIN;
  if (moved == 0) return errno = EPIPE, -1;
  return moved;
}

std::ptrdiff_t TlsConnection::receive(void* to, std::size_t room) {
  if (parts_->broken) return parts_->error ? (errno = parts_->error, -1) : 0;
  ERR_clear_error();
  std::size_t done = 0;
  const int result = SSL_read_ex(parts_->own.get(), to, room, &done);
  return result == 1 ? static_cast<std::ptrdiff_t>(done) : parts_->failed(result);
}

bool TlsConnection::holds() const { return SSL_pending(parts_->own.get()) > 0; }

void TlsConnection::say_goodbye() {
  if (parts_->broken || !SSL_is_init_finished(parts_->own.get())) return;
  ERR_clear_error();
  SSL_shutdown(parts_->own.get());
  ERR_clear_error();
}

std::int64_t TlsConnection::sent() const { return parts_->sent; }

std::string tls_library_version() {
  const std::string text = OpenSSL_version(OPENSSL_VERSION);
  return text.substr(0, text.find(' ', text.find(' ') + 1));
}

}  // namespace ft
