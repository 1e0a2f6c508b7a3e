// Frames of distributed.encryption=auth, changed on their way by the test.
#include "engine/ranks/mac_seal.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace ft {
namespace {

// Two ends, a sender and a receiver; the test carries the bytes.
class Frames : public testing::Test {
 protected:
  void SetUp() override {
    for (auto& [here, there] : lines_) {
      int fds[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
      here = Socket(fds[0]);
      there = Socket(fds[1]);
    }
    start();
  }
  void start() {  // with new connections' frames
    FrameMac::Key a{}, b{};
    b[0] = std::byte{1};
    from_.emplace(lines_[0].first.fd(), a, b);
    to_.emplace(lines_[1].first.fd(), b, a);
  }
  std::string frame_of(const std::string& text) {
    const iovec piece{const_cast<char*>(text.data()), text.size()};
    EXPECT_EQ(from_->send({&piece, 1}), static_cast<std::ptrdiff_t>(text.size()));
    std::string frame(1 << 17, 0);
    const ssize_t n = ::recv(lines_[0].second.fd(), frame.data(), frame.size(), 0);
    frame.resize(static_cast<std::size_t>(std::max<ssize_t>(0, n)));
    return frame;
  }
  void give(const std::string& bytes) {
    ASSERT_EQ(::send(lines_[1].second.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Returns all bytes that have arrived; "!" at the end: the seal is broken.
  std::string received() {
    std::string all, room(1000, 0);
    for (;;) {
      const std::ptrdiff_t n = to_->receive(room.data(), room.size());
      if (n < 0 && errno == EBADMSG) return all + "!";
      if (n <= 0) return all;
      all += room.substr(0, static_cast<std::size_t>(n));
    }
  }
  void drain() {
    std::string room(1 << 17, 0);
    while (::recv(lines_[1].first.fd(), room.data(), room.size(), 0) > 0) {
    }
  }

  std::pair<Socket, Socket> lines_[2];
  std::optional<MacSeal> from_, to_;
};

TEST_F(Frames, CarryBytesInOrder) {
  give(frame_of("one "));
  EXPECT_EQ(received(), "one ");
  give(frame_of("two "));
  give(frame_of("three "));
  EXPECT_EQ(received(), "two three ");
  const std::string frame = frame_of("byte by byte");
  for (const char c : frame) {
    EXPECT_EQ(received(), "");
    give(std::string(1, c));
  }
  EXPECT_EQ(received(), "byte by byte");
  EXPECT_EQ(frame.size(), MacSeal::kHead + 12 + MacSeal::kTail);
}

TEST_F(Frames, AFlippedBitIsFound) {
  for (std::size_t byte = 0; byte < 25; ++byte) {
    start();
    std::string frame = frame_of("hello");
    ASSERT_EQ(frame.size(), 25u);
    frame[byte] = static_cast<char>(frame[byte] ^ 1);
    give(frame);
    if (byte == 1) {  // the size is larger: nothing is returned before as many bytes come
      EXPECT_EQ(received(), "");
      give(std::string(300, 'x'));
    }
    EXPECT_EQ(received(), "!") << byte;
    EXPECT_EQ(received(), "!") << "it stays broken";
    drain();
  }
}

TEST_F(Frames, RepeatedDroppedAndMovedFramesAreFound) {
  const std::string one = frame_of("1"), two = frame_of("2"), three = frame_of("3");
  for (const auto& [bytes, want] : {std::pair{one + one, "1!"},
                                    {two, "!"},
                                    {one + three, "1!"},
                                    {two + one, "!"},
                                    {one + two + three, "123"}}) {
    start();
    give(bytes);
    EXPECT_EQ(received(), want);
    drain();
  }
}

// A frame that goes back to its sender has the other direction's key.
TEST_F(Frames, AReflectedFrameIsFound) {
  const std::string frame = frame_of("mirror");
  ASSERT_EQ(::send(lines_[0].second.fd(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
  char room[100];
  EXPECT_EQ(from_->receive(room, sizeof room), -1);
  EXPECT_EQ(errno, EBADMSG);
}

TEST_F(Frames, SizesOutOfRangeAreFoundAtOnce) {
  for (const std::uint32_t size : {0u, (64u << 10) + 1, 0xffffffffu}) {
    start();
    std::string head(4, 0);
    std::memcpy(head.data(), &size, 4);
    give(head);
    EXPECT_EQ(received(), "!") << size;
  }
}

// More than the socket takes at once: bytes count when all of their frame has gone.
TEST_F(Frames, WaitForTheSocketAndLoseNothing) {
  std::string text(3 << 20, 0);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 >> 3);
  std::string arrived;
  int waited = 0;
  for (std::size_t at = 0; arrived.size() < text.size();) {
    iovec pieces[2] = {{text.data() + at, std::min<std::size_t>(7, text.size() - at)}, {}};
    pieces[1] = {text.data() + at + pieces[0].iov_len, text.size() - at - pieces[0].iov_len};
    const std::ptrdiff_t n = at < text.size() ? from_->send(pieces) : 0;
    if (n > 0) at += static_cast<std::size_t>(n);
    if (n > 0 && at < text.size()) continue;
    ++waited;
    std::string room(1 << 20, 0);
    for (ssize_t some; (some = ::recv(lines_[0].second.fd(), room.data(), 50'000, 0)) > 0;) {
      give(room.substr(0, static_cast<std::size_t>(some)));
      arrived += received();
    }
  }
  EXPECT_EQ(arrived, text);
  EXPECT_GT(waited, 2);
  EXPECT_EQ(from_->sent(), static_cast<std::int64_t>(text.size() + 48 * (MacSeal::kHead + MacSeal::kTail)));
}

TEST_F(Frames, AllocateNothing) {
  std::vector<char> room(1 << 17);
  const iovec piece{room.data(), 1000};
  const auto before = mallinfo2().uordblks;
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(from_->send({&piece, 1}), 1000);
    const ssize_t n = ::recv(lines_[0].second.fd(), room.data(), room.size(), 0);
    ASSERT_EQ(::send(lines_[1].second.fd(), room.data(), static_cast<std::size_t>(n), 0), n);
    ASSERT_EQ(to_->receive(room.data(), room.size()), 1000);
  }
  EXPECT_EQ(mallinfo2().uordblks, before);
}

}  // namespace
}  // namespace ft
