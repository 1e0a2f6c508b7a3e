// TLS between two ends in one thread. The test carries the bytes between them, and may change them.
#include "engine/crypto/tls.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "tests/support/certificate.h"

namespace ft {
namespace {

namespace fs = std::filesystem;
using Handshake = TlsConnection::Handshake;

TlsKey secret(int last) {
  TlsKey key{};
  key.back() = std::byte(last);
  return key;
}

// Two ends whose sockets lead to the test.
class Line {
 public:
  Line() {
    for (int i : {0, 1}) {
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_[i]), 0);
    }
  }
  ~Line() {
    for (auto& end : ends_)
      for (const int fd : end)
        if (fd >= 0) ::close(fd);
  }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  int socket(int end) const { return ends_[end][0]; }
  // Takes the bytes that an end has sent.
  std::string taken_from(int end) const {
    std::string all(1 << 20, 0);
    const ssize_t n = ::recv(ends_[end][1], all.data(), all.size(), 0);
    all.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return all;
  }
  void give_to(int end, const std::string& bytes) const {
    EXPECT_EQ(::send(ends_[end][1], bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void move_to_listener(std::vector<char>& room) const {  // allocates nothing
    for (ssize_t n; (n = ::recv(ends_[0][1], room.data(), room.size(), 0)) > 0;)
      ASSERT_EQ(::send(ends_[1][1], room.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL), n);
  }
  void close_to(int end) const { ::shutdown(ends_[end][1], SHUT_WR); }
  bool pass_on() const {  // from each end to the other; returns true if there was anything
    const std::string a = taken_from(0), b = taken_from(1);
    if (!a.empty()) give_to(1, a);
    if (!b.empty()) give_to(0, b);
    return !a.empty() || !b.empty();
  }

 private:
  int ends_[2][2] = {{-1, -1}, {-1, -1}};  // the end's socket, and the test's side of it
};

struct Ends {
  TlsConnection guest, listener;
};

// Makes both ends, and continues their handshakes until neither goes on.
std::pair<Handshake, Handshake> shake(Ends& ends, const Line& line) {
  Handshake a = Handshake::reads, b = Handshake::reads;
  do {
    if (a != Handshake::done && a != Handshake::failed) a = ends.guest.shake();
    if (b != Handshake::done && b != Handshake::failed) b = ends.listener.shake();
  } while (line.pass_on());
  return {a, b};
}

Ends ends_of(const Line& line, std::int64_t records = TlsConnection::kRecordsOfKey, int guests = 1) {
  const TlsContext context = TlsContext::with_key();
  return {TlsConnection::connecting(context, line.socket(0), secret(guests), records),
          TlsConnection::listening(context, line.socket(1), secret(1), records)};
}

std::string pattern(std::size_t size) {
  std::string text(size, 0);
  std::uint32_t state = 1;
  for (char& c : text) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return text;
}

// Sends a text from one end to the other; returns what arrives.
std::string sent_over(TlsConnection& from, TlsConnection& to, const Line& line, const std::string& text) {
  std::string arrived;
  std::vector<char> room(10'000);
  for (std::size_t at = 0; arrived.size() < text.size();) {
    if (at < text.size()) {
      const std::ptrdiff_t n = from.send(text.data() + at, text.size() - at);
      EXPECT_TRUE(n > 0 || errno == EAGAIN) << errno;
      if (n > 0) at += static_cast<std::size_t>(n);
    }
    line.pass_on();
    for (std::ptrdiff_t n; (n = to.receive(room.data(), room.size())) != 0;) {
      if (n < 0 && errno != EAGAIN) return "errno " + std::to_string(errno);
      if (n < 0) break;
      arrived.append(room.data(), static_cast<std::size_t>(n));
    }
  }
  return arrived;
}

class Made : public testing::Test {
 protected:
  Line line;
  Ends ends = ends_of(line, 5);  // few records for a key: it changes often
  void SetUp() override { ASSERT_EQ(shake(ends, line), std::pair(Handshake::done, Handshake::done)); }
};

TEST_F(Made, CarriesBytesBothWaysAndChangesKeys) {
  const std::string text = pattern(700'000);
  EXPECT_EQ(sent_over(ends.guest, ends.listener, line, text), text);
  EXPECT_EQ(sent_over(ends.listener, ends.guest, line, text), text);
  EXPECT_GT(ends.guest.sent(), 700'000);
}

TEST_F(Made, HidesTheBytes) {
  const std::string text(2000, 'x');
  ASSERT_EQ(ends.guest.send(text.data(), text.size()), 2000);
  EXPECT_EQ(line.taken_from(0).find("xxxx"), std::string::npos);
}

TEST_F(Made, AllocatesNothingOnceItHasSent) {
  const std::string text = pattern(40'000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(sent_over(ends.guest, ends.listener, line, text), text);
  std::vector<char> room(text.size());
  const auto before = mallinfo2().uordblks;
  for (int i = 0; i < 50; ++i) {
    ASSERT_GT(ends.guest.send(text.data(), 10'000), 0);
    line.move_to_listener(room);
    ASSERT_GT(ends.listener.receive(room.data(), room.size()), 0);
  }
  EXPECT_EQ(mallinfo2().uordblks, before);
}

// A changed size in a record's head can make the other end wait for more bytes; then it returns nothing
// either.
TEST(Tls, AFlippedBitIsFoundInEveryByte) {
  const std::string text = pattern(60);
  std::vector<char> room(1000);
  int found = 0, waiting = 0;
  for (std::size_t byte = 0; byte < 60 + 22; ++byte) {
    const Line line;
    Ends ends = ends_of(line);
    ASSERT_EQ(shake(ends, line).second, Handshake::done);
    ASSERT_EQ(ends.guest.send(text.data(), text.size()), 60);
    std::string record = line.taken_from(0);
    ASSERT_EQ(record.size(), 60u + 22);
    record[byte] = static_cast<char>(record[byte] ^ 4);
    line.give_to(1, record);
    EXPECT_EQ(ends.listener.receive(room.data(), room.size()), -1) << byte;
    EXPECT_TRUE(errno == EBADMSG || (errno == EAGAIN && (byte == 3 || byte == 4))) << byte << " " << errno;
    errno == EBADMSG ? ++found : ++waiting;
    if (errno != EBADMSG) continue;
    line.give_to(1, record);
    EXPECT_EQ(ends.listener.receive(room.data(), room.size()), -1) << "it stays broken";
    EXPECT_EQ(errno, EBADMSG);
  }
  EXPECT_GE(found, 80);
  EXPECT_LE(waiting, 2);
}

TEST(Tls, RepeatedDroppedAndMovedRecordsAreFound) {
  const std::string text = pattern(60);
  std::vector<char> room(1000);
  for (const auto& order : {std::vector<int>{0, 0}, {1}, {1, 0}, {0, 2}}) {
    const Line line;
    Ends ends = ends_of(line);
    ASSERT_EQ(shake(ends, line).second, Handshake::done);
    std::vector<std::string> records;
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(ends.guest.send(text.data(), text.size()), 60);
      records.push_back(line.taken_from(0));
    }
    for (const int i : order) line.give_to(1, records[static_cast<std::size_t>(i)]);
    std::ptrdiff_t n = 0;
    while ((n = ends.listener.receive(room.data(), room.size())) > 0) EXPECT_EQ(order[0], 0);
    EXPECT_EQ(n, -1);
    EXPECT_EQ(errno, EBADMSG);
  }
}

TEST(Tls, AnotherKeyIsRefusedByBoth) {
  const Line line;
  Ends ends = ends_of(line, 100, 2);
  const auto [guest, listener] = shake(ends, line);
  EXPECT_EQ(guest, Handshake::failed);
  EXPECT_EQ(listener, Handshake::failed);
  EXPECT_NE(ends.listener.problem(), "");
  EXPECT_NE(ends.guest.problem(), "");
  char room = 0;
  EXPECT_EQ(ends.guest.send("a", 1), -1);
  EXPECT_EQ(ends.guest.receive(&room, 1), -1);
}

TEST(Tls, PlainBytesAreNoHandshake) {
  for (const std::string noise : {"GET / HTTP/1.1\r\n\r\n", "ft ranks", "\x16\x03\x01\xff\xff"}) {
    const Line line;
    TlsConnection listener = TlsConnection::listening(TlsContext::with_key(), line.socket(1), secret(1));
    line.give_to(1, noise + std::string(100, 'z'));
    EXPECT_EQ(listener.shake(), Handshake::failed) << noise;
    EXPECT_NE(listener.problem(), "") << noise;
  }
}

TEST(Tls, AHandshakeThatEndsEarlyFails) {
  const Line whole;
  TlsConnection guest = TlsConnection::connecting(TlsContext::with_key(), whole.socket(0), secret(1));
  EXPECT_EQ(guest.shake(), Handshake::reads);
  const std::string hello = whole.taken_from(0);
  ASSERT_GT(hello.size(), 100u);
  for (std::size_t size = 0; size < hello.size(); size += 7) {
    const Line line;
    TlsConnection listener = TlsConnection::listening(TlsContext::with_key(), line.socket(1), secret(1));
    line.give_to(1, hello.substr(0, size));
    EXPECT_EQ(listener.shake(), Handshake::reads) << size;
    line.close_to(1);
    EXPECT_EQ(listener.shake(), Handshake::failed) << size;
    EXPECT_EQ(listener.problem(), "the other end closed the connection") << size;
  }
}

class Certificates : public testing::Test {
 protected:
  std::string folder = (fs::temp_directory_path() / ("ft-tls-" + std::to_string(::getpid()))).string();
  void SetUp() override {
    fs::create_directories(folder);
    if (!test::make_certificate(folder, "a") || !test::make_certificate(folder, "b"))
      GTEST_SKIP() << "no openssl program makes certificates here";
  }
  void TearDown() override { fs::remove_all(folder); }
  std::string file(const std::string& name) const { return folder + "/" + name; }
  std::string refused(const std::string& certificate, const std::string& key) const {
    try {
      TlsContext::of_server(certificate, key);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::config);
      return e.what();
    }
    return "";
  }
};

TEST_F(Certificates, OfAStrangerDoNotStandForTheKey) {
  const TlsContext stranger = TlsContext::of_server(file("a.cert.pem"), file("a.key.pem"));
  const Line line;
  Ends ends{TlsConnection::connecting(TlsContext::with_key(), line.socket(0), secret(1)),
            TlsConnection::serving(stranger, line.socket(1))};
  EXPECT_EQ(shake(ends, line).first, Handshake::failed);
}

TEST_F(Certificates, WrongFilesAreNamed) {
  const std::string a = file("a.cert.pem"), key = file("a.key.pem");
  EXPECT_EQ(refused(a, key), "");
  EXPECT_EQ(refused(file("none"), key), "--tls-cert " + file("none") + ": No such file or directory");
  EXPECT_EQ(refused(a, file("none")), "--tls-key " + file("none") + ": No such file or directory");
  EXPECT_NE(refused(key, key).find("--tls-cert " + key + ": is no certificate in PEM"), std::string::npos);
  EXPECT_NE(refused(a, a).find("--tls-key " + a + ": is no private key in PEM"), std::string::npos);
  EXPECT_EQ(refused(a, file("b.key.pem")),
            "--tls-key " + file("b.key.pem") + ": is not the key of the certificate in " + a);
  std::ofstream(file("empty")).close();
  EXPECT_NE(refused(file("empty"), key), "");
  EXPECT_NE(refused(folder, key), "");
  const std::string locked = file("locked.pem");
  ASSERT_EQ(std::system(
                ("openssl pkey -aes256 -passout pass:abcd -in '" + key + "' -out '" + locked + "'").c_str()),
            0);
  EXPECT_NE(refused(a, locked).find("the key is encrypted; openssl pkey -in "), std::string::npos);
  if (test::make_certificate(folder, "old", 0)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    EXPECT_NE(refused(file("old.cert.pem"), file("old.key.pem")).find("has expired"), std::string::npos);
  }
}

TEST(Tls, TakesTheMemoryThatIsPlanned) {
  std::vector<Line> lines(5);
  std::vector<Ends> made;
  made.reserve(lines.size());
  const std::string text = pattern(100'000);
  std::size_t before = 0;
  for (const Line& line : lines) {
    if (made.size() == 1) before = mallinfo2().uordblks;  // the first one allocates shared memory
    made.push_back(ends_of(line));
    ASSERT_EQ(shake(made.back(), line).second, Handshake::done);
    EXPECT_EQ(sent_over(made.back().guest, made.back().listener, line, text), text);
    EXPECT_EQ(sent_over(made.back().listener, made.back().guest, line, text), text);
  }
  const auto each = static_cast<std::int64_t>((mallinfo2().uordblks - before) / (2 * (lines.size() - 1)));
  EXPECT_LE(each, TlsConnection::kMemory);
  EXPECT_GT(each, TlsConnection::kMemory / 4);
}

TEST(Tls, NamesItsLibrary) { EXPECT_TRUE(tls_library_version().starts_with("OpenSSL ")); }

}  // namespace
}  // namespace ft
