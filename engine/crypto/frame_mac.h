// Authentication of numbered frames: GMAC (NIST SP 800-38D), AES-128-GCM without a text to encrypt. A frame's
// number is its nonce, so that a frame that is repeated, dropped or moved has another code. By OpenSSL.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace ft {

class FrameMac {
 public:
  using Key = std::array<std::byte, 16>;
  using Tag = std::array<std::byte, 16>;

  // A key must be used by one sender only, and for one frame of each number.
  explicit FrameMac(const Key&);
  FrameMac(FrameMac&&) noexcept;
  FrameMac& operator=(FrameMac&&) noexcept;
  ~FrameMac();

  // Returns the code of frame `number`. Allocates nothing.
  Tag tag(std::uint64_t number, std::span<const std::byte> frame);

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

bool same_tag(const FrameMac::Tag& a, const FrameMac::Tag& b);  // takes equally long for all inputs

}  // namespace ft
