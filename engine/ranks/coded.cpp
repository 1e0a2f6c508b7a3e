#include "engine/ranks/coded.h"

#include "engine/ops/ops.h"

namespace ft {
namespace {

struct Messages {
  Tensor codes, scales;
};

Messages messages_of(std::byte* at, std::int64_t rows, std::int64_t n, int bits) {
  const std::int64_t stride = coded_bytes(n, bits);
  return {{at, DType::u8, {rows, n * bits / 8}, stride},
          {at + n * bits / 8, DType::f32, {rows, n / op::kWireBlock}, stride / size_of(DType::f32)}};
}

}  // namespace

void encode(Ops& ops, std::byte* messages, const Tensor& x, int bits) {
  const Messages to = messages_of(messages, x.rows(), x.cols(), bits);
  ops.run(op::EncodeBlocks{.codes = to.codes, .scales = to.scales, .x = x, .bits = bits});
}

void decode(Ops& ops, const Tensor& x, std::byte* messages, int bits, bool adds) {
  const Messages from = messages_of(messages, x.rows(), x.cols(), bits);
  ops.run(op::DecodeBlocks{.y = x, .codes = from.codes, .scales = from.scales, .bits = bits, .adds = adds});
}

std::int64_t CodedSum::bytes(std::int64_t count, int near, int far) {
  const std::int64_t each = count / near / far;
  return 2 * near * far * coded_bytes(each, kBits) + (far > 1 ? far * each * size_of(DType::f32) : 0);
}

Tensor CodedSum::sums() const { return {memory_ + 2 * near_ * far_ * message(), DType::f32, {far_, each_}}; }

void CodedSum::encode(const Tensor& all) {
  for (int b = 0; b < near_; ++b)
    ft::encode(ops_, leaving() + b * far_ * message(),
               {all.data + b * each_ * size_of(DType::f32), DType::f32, {far_, each_}, near_ * each_}, kBits);
}

void CodedSum::first(Communicator& near) {
  const Shape all{near_ * far_ * message()};
  near.all_to_all({arriving(), DType::u8, all}, {leaving(), DType::u8, all});
}

void CodedSum::between() {
  for (int b = 0; b < near_; ++b) decode(ops_, sums(), arriving() + b * far_ * message(), kBits, b > 0);
  ft::encode(ops_, leaving(), sums(), kBits);
}

void CodedSum::second(Communicator& far) {
  const Shape all{far_ * message()};
  far.all_to_all({arriving(), DType::u8, all}, {leaving(), DType::u8, all});
}

void CodedSum::add_to(const Tensor& mine) {
  for (int r = 0; r < (far_ > 1 ? far_ : near_); ++r)
    decode(ops_, mine.view({1, each_}), arriving() + r * message(), kBits, true);
}

}  // namespace ft
