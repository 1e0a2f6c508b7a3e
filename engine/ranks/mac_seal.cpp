#include "engine/ranks/mac_seal.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ft {
namespace {

std::uint32_t size_in(const std::vector<std::byte>& frame) {
  std::uint32_t size = 0;
  std::memcpy(&size, frame.data(), sizeof size);
  return size;
}

}  // namespace

// Copies up to a frame's bytes, and adds their size and code.
void MacSeal::pack(std::span<const iovec> pieces) {
  packed_ = 0;
  for (const iovec& p : pieces) {
    const std::size_t count = std::min(p.iov_len, kMost - packed_);
    if (count > 0) std::memcpy(out_.data() + kHead + packed_, p.iov_base, count);
    packed_ += count;
  }
  const auto size = static_cast<std::uint32_t>(packed_);
  std::memcpy(out_.data(), &size, sizeof size);
  const FrameMac::Tag tag = sends_.tag(next_out_++, {out_.data(), kHead + packed_});
  std::memcpy(out_.data() + kHead + packed_, tag.data(), tag.size());
  left_ = kHead + packed_ + kTail;
}

std::ptrdiff_t MacSeal::send(std::span<const iovec> pieces) {
  if (left_ == 0) pack(pieces);
  const std::size_t all = kHead + packed_ + kTail;
  const ssize_t n = ::send(socket_, out_.data() + (all - left_), left_, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0) return -1;
  sent_ += n;
  left_ -= static_cast<std::size_t>(n);
  if (left_ > 0) return errno = EAGAIN, -1;
  return static_cast<std::ptrdiff_t>(packed_);
}

std::ptrdiff_t MacSeal::fill(std::size_t until) {
  if (filled_ >= until) return 1;
  const ssize_t n = ::recv(socket_, in_.data() + filled_, until - filled_, MSG_DONTWAIT);
  if (n > 0) filled_ += static_cast<std::size_t>(n);
  return n;
}

// Returns true if in_ holds the next frame of the other end, with a right code.
bool MacSeal::open() {
  FrameMac::Tag tag{};
  std::memcpy(tag.data(), in_.data() + kHead + whole_, tag.size());
  return same_tag(tag, receives_.tag(next_in_++, {in_.data(), kHead + whole_}));
}

std::ptrdiff_t MacSeal::receive(void* to, std::size_t room) {
  while (taken_ == whole_) {
    if (broken_) return errno = EBADMSG, -1;
    if (const std::ptrdiff_t n = fill(kHead); n <= 0) return n;
    if (filled_ < kHead) continue;
    const std::uint32_t size = size_in(in_);
    broken_ = size == 0 || size > kMost;
    if (broken_) continue;
    const std::size_t all = kHead + size + kTail;
    if (const std::ptrdiff_t n = fill(all); n <= 0) return n;
    if (filled_ < all) continue;
    whole_ = size;
    broken_ = !open();
    if (broken_) whole_ = 0;
    taken_ = filled_ = 0;
  }
  const std::size_t count = std::min(room, whole_ - taken_);
  std::memcpy(to, in_.data() + kHead + taken_, count);
  taken_ += count;
  return static_cast<std::ptrdiff_t>(count);
}

}  // namespace ft
