// Authentication of numbered frames by OpenSSL: GMAC (NIST SP 800-38D), AES-128-GCM without a text to
// encrypt. The frame's number is the nonce, so that a repeated, dropped or moved frame does not match its
// code.
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

  // A key belongs to one sender, and serves for each number once.
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
