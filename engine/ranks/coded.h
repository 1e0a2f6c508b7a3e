// Messages between ranks that hold numbers in few bits: the codes of blocks (ops/compressed.h), then the
// blocks' scales.
#pragma once
#include "engine/ops/compressed.h"
#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"

namespace ft {

// Bytes of a message of n elements; n is a multiple of the block.
constexpr std::int64_t coded_bytes(std::int64_t n, int bits) {
  return n * bits / 8 + n / op::kWireBlock * size_of(DType::f32);
}

inline constexpr int kValueBits = 8;  // of weights sent between ranks

// Encode and decode consecutive messages, one for each row of x (rows, n). `bits`: as in op::EncodeBlocks.
// adds: add to x instead of overwriting it.
void encode(Ops&, std::byte* messages, const Tensor& x, int bits);
void decode(Ops&, const Tensor& x, std::byte* messages, int bits, bool adds = false);

// The sum over ranks of `count` numbers each, scattered: every rank gets one piece. The numbers are sent in 4
// bits (ZeRO++'s qgZ: Wang et al. 2023, arXiv 2306.10209). Rank a near + b is at place b of group a. In the
// first hop, the ranks of a group exchange the pieces that belong to place b of all groups, and add them up.
// In the second hop, the ranks at the same place of all groups exchange these sums. With one group there is
// only the first hop. Call the members in the order of their declaration. The hops run beside the
// computation. The memory is free after the last call.
class CodedSum {
 public:
  static constexpr int kBits = 4;
  static std::int64_t bytes(std::int64_t count, int near, int far);
  // memory: of bytes(count, near, far) bytes.
  CodedSum(Ops& ops, std::byte* memory, std::int64_t count, int near, int far)
      : ops_(ops), memory_(memory), near_(near), far_(far), each_(count / near / far) {}

  void encode(const Tensor& all);   // f32, this rank's numbers
  void first(Communicator& near);   // first hop, within a group
  void between();                   // only if far > 1, as is second()
  void second(Communicator& far);   // second hop, between ranks at one place
  void add_to(const Tensor& mine);  // this rank's piece += the sum
  std::byte* memory() const { return memory_; }

 private:
  std::int64_t message() const { return coded_bytes(each_, kBits); }
  std::byte* leaving() const { return memory_; }
  std::byte* arriving() const { return memory_ + near_ * far_ * message(); }
  Tensor sums() const;  // (far, each)

  Ops& ops_;
  std::byte* memory_;
  int near_, far_;
  std::int64_t each_;
};

}  // namespace ft
