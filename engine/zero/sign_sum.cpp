#include "engine/zero/sign_sum.h"

#include <algorithm>
#include <vector>

#include "engine/ops/ops.h"
#include "engine/zero/state_spec.h"

namespace ft {
namespace {

// Messages of all ranks. A message holds a scale for each parameter, then the bits of one rank's share of
// each.
struct Messages {
  Messages(Tensor memory, std::span<const SignSum> all, int n) : ranks(n), data(memory) {
    std::int64_t at = std::ssize(all) * size_of(DType::f32);
    for (const SignSum& s : all) {
      bits_at.push_back(at);
      at += Share::most(s.mean.numel(), ranks) / 8;
    }
  }
  static std::int64_t size(std::span<const SignSum> all, int ranks) {
    std::int64_t bytes = std::ssize(all) * size_of(DType::f32);
    for (const SignSum& s : all) bytes += Share::most(s.mean.numel(), ranks) / 8;
    return round_up(bytes, size_of(DType::f32));
  }
  std::int64_t each() const { return data.numel() / ranks; }
  // The scales, and the bits, of a parameter in the messages of `rows` ranks, beginning with rank `first`.
  Tensor scales(std::size_t parameter, int first, int rows) const {
    return {data.data + first * each() + static_cast<std::int64_t>(parameter) * size_of(DType::f32),
            DType::f32,
            {rows, 1},
            each() / size_of(DType::f32)};
  }
  Tensor bits(std::size_t parameter, int first, int rows, std::int64_t values) const {
    return {data.data + first * each() + bits_at[parameter], DType::u8, {rows, ceil_div(values, 8)}, each()};
  }

  int ranks;
  Tensor data;
  std::vector<std::int64_t> bits_at;
};

// squares (f64, one for each SignSum) = the sums of squares of the member `of`.
void sum_squares(Ops& ops, Tensor squares, std::span<const SignSum> all, Tensor SignSum::*of) {
  const std::vector<double> zeros(all.size());
  ops.upload(squares, zeros.data());
  for (std::size_t i = 0; i < all.size(); ++i)
    if ((all[i].*of).numel() > 0)
      ops.run(op::SumSquares{squares.elements(static_cast<std::int64_t>(i), 1), all[i].*of});
}

void encode(Ops& ops, const Messages& to, std::size_t i, int rank, Tensor part, Tensor squares,
            std::int64_t count) {
  ops.run(op::EncodeSigns{.bits = to.bits(i, rank, 1, part.numel()),
                          .scale = to.scales(i, rank, 1),
                          .x = part,
                          .squares = squares.elements(static_cast<std::int64_t>(i), 1),
                          .count = static_cast<double>(std::max<std::int64_t>(1, count))});
}

}  // namespace

void sum_signs(Ops& ops, Communicator& comm, std::span<const SignSum> all, Arena& scratch) {
  const int ranks = comm.size(), rank = comm.rank();
  const std::int64_t bytes = Messages::size(all, ranks) * ranks;
  Scope scope(scratch);
  const Tensor squares = scratch.take({std::ssize(all)}, DType::f64);
  const Messages leaving(scratch.take({bytes}, DType::u8), all, ranks),
      arriving(scratch.take({bytes}, DType::u8), all, ranks);

  sum_squares(ops, squares, all, &SignSum::x);
  for (int r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Share share = Share::of(all[i].x.numel(), r, ranks);
      encode(ops, leaving, i, r, all[i].x.elements(share.first, share.count), squares, all[i].x.numel());
    }
  comm.all_to_all(arriving.data, leaving.data);

  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t n = all[i].lost.numel();
    if (n == 0) continue;  // fewer values than ranks
    ops.run(op::AddSigns{.y = all[i].lost,
                         .bits = arriving.bits(i, 0, ranks, n),
                         .scales = arriving.scales(i, 0, ranks),
                         .factor = 1.0f / static_cast<float>(ranks)});
  }
  sum_squares(ops, squares, all, &SignSum::lost);
  for (std::size_t i = 0; i < all.size(); ++i)
    encode(ops, leaving, i, rank, all[i].lost, squares, all[i].lost.numel());
  comm.all_gather(arriving.data, leaving.data.elements(rank * leaving.each(), leaving.each()));

  for (std::size_t i = 0; i < all.size(); ++i) {
    ops.run(op::Fill{all[i].mean, 0});
    for (int r = 0; r < ranks; ++r) {
      const Share share = Share::of(all[i].mean.numel(), r, ranks);
      if (share.count == 0) continue;
      ops.run(op::AddSigns{.y = all[i].mean.elements(share.first, share.count),
                           .bits = arriving.bits(i, r, 1, share.count),
                           .scales = arriving.scales(i, r, 1),
                           .factor = 1});
    }
  }
}

}  // namespace ft
