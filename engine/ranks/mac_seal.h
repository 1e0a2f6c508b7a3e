// distributed.encryption=auth: frames that are authenticated but not hidden. A frame is its size (4 bytes),
// up to 64 KiB, and the code of both (16 bytes) under the frame's number, which is not sent.
#pragma once
#include <vector>

#include "engine/crypto/frame_mac.h"
#include "engine/ranks/channel.h"

namespace ft {

class MacSeal final : public Seal {
 public:
  static constexpr std::size_t kMost = 64 << 10;  // bytes that a frame carries
  static constexpr std::size_t kHead = sizeof(std::uint32_t), kTail = sizeof(FrameMac::Tag);
  static constexpr std::int64_t kMemory = 2 * (kHead + kMost + kTail);

  // socket: outlives the seal. The keys of the two directions differ.
  MacSeal(int socket, const FrameMac::Key& sending, const FrameMac::Key& receiving)
      : socket_(socket), sends_(sending), receives_(receiving), out_(kMemory / 2), in_(kMemory / 2) {}

  std::ptrdiff_t send(std::span<const iovec>) override;
  std::ptrdiff_t receive(void* to, std::size_t room) override;
  std::int64_t sent() const override { return sent_; }

 private:
  void pack(std::span<const iovec>);
  std::ptrdiff_t fill(std::size_t until);  // reads a frame up to `until` bytes; returns as recv(2)
  bool open();

  int socket_;
  FrameMac sends_, receives_;
  std::uint64_t next_out_ = 0, next_in_ = 0;  // numbers of frames
  std::vector<std::byte> out_, in_;           // one frame each
  std::size_t packed_ = 0, left_ = 0;         // bytes that out_ carries; bytes of the frame still to send
  std::size_t filled_ = 0;                    // bytes of the frame in in_
  std::size_t taken_ = 0, whole_ = 0;         // of in_: bytes that receive() has returned; all that it may
  bool broken_ = false;
  std::int64_t sent_ = 0;
};

}  // namespace ft
