// Numbers in few bits as messages between ranks: codes in blocks (ops/compressed.h), and after them the
// scales.
#pragma once
#include "engine/ops/compressed.h"
#include "engine/ops/device.h"
#include "engine/ranks/communicator.h"

namespace ft {

// Bytes of a message of n elements, whole blocks.
constexpr std::int64_t coded_bytes(std::int64_t n, int bits) {
  return n * bits / 8 + n / op::kWireBlock * size_of(DType::f32);
}

inline constexpr int kValueBits = 8;  // of weights between ranks

// Messages that lie one after another, each a row of x (rows, n). `bits` as of op::EncodeBlocks.
void encode(Ops&, std::byte* messages, const Tensor& x, int bits);
void decode(Ops&, const Tensor& x, std::byte* messages, int bits, bool adds = false);

// The sum over ranks of `count` numbers each, of which every rank gets its piece; they travel in 4 bits
// (ZeRO++'s qgZ: Wang et al. 2023, arXiv 2306.10209). Ranks a near + b with the same a form a group. First
// those of a group tell each other what the places b of all groups want, and add it up; then ranks at the
// same place tell each other these sums. With one group there is only the first hop. Calls in this order,
// the hops beside the computation; the memory is free after the last.
class CodedSum {
 public:
  static constexpr int kBits = 4;
  static std::int64_t bytes(std::int64_t count, int near, int far);
  // memory: bytes(count, near, far).
  CodedSum(Ops& ops, std::byte* memory, std::int64_t count, int near, int far)
      : ops_(ops), memory_(memory), near_(near), far_(far), each_(count / near / far) {}

  void encode(const Tensor& all);   // f32
  void first(Communicator& near);   // of a group
  void between();                   // only if far > 1, as second()
  void second(Communicator& far);   // of a place
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
