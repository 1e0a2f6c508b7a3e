// Attention in a ring of ranks against reference attention over all rows, with its gradient, in every type;
// the bytes sent; the same bits with overlap.
#include "engine/parallel/ring_attention.h"

#include <gtest/gtest.h>

#include <mutex>

#include "engine/parallel/sequence_part.h"
#include "tests/reference/attention.h"
#include "tests/support/matrix.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

using test::Matrix;
using Values = std::vector<double>;

struct Case {
  Heads heads;
  std::vector<std::int32_t> lengths;  // with a sum that is a multiple of 2 x ranks
  int ranks = 2;
  std::int64_t window = 0;
  float cap = 0;
};

struct Result {
  Values y, dq, dk, dv;
  std::int64_t sent = 0;  // by rank 0
  bool operator==(const Result&) const = default;
};

class Whole {
 public:
  Whole(const Case& c, DType type) : case_(c), type_(type) {
    for (const std::int32_t n : c.lengths) starts_.push_back(starts_.back() + n);
    const std::int64_t rows = starts_.back(), queries = c.heads.query * c.heads.width,
                       keys = c.heads.key_value * c.heads.width;
    for (const std::int64_t columns : {queries, keys, keys, queries})  // q, k, v, dy
      in_.push_back(std::move(Matrix(rows, columns, type).randomize(in_.size() + 1)));
  }

  Result reference() const {
    const reference::Attention by_the_book{
        .heads = case_.heads, .starts = starts_, .window = case_.window, .scale = kScale, .cap = case_.cap};
    Result r;
    Values lse, none;
    const Values q = in_[0].values(), k = in_[1].values(), v = in_[2].values();
    by_the_book.forward(r.y, lse, q, k, v);
    by_the_book.backward(r.dq, r.dk, r.dv, none, in_[3].values(), q, k, v);
    return r;
  }

  Result in_a_ring(bool overlap) const {
    std::vector<Matrix> out;  // y, dq, dk, dv
    for (const int like : {0, 0, 1, 2}) out.emplace_back(starts_.back(), in_[like].tensor.cols(), type_);
    std::int64_t sent = 0;
    rethrow_first(on_threads(case_.ranks, [&](Ops& ops, Mesh mesh) {
      std::unique_ptr<Communicator> comm = std::make_unique<MeshCommunicator>(ops, std::move(mesh), 20);
      if (overlap) comm = std::make_unique<OverlappedCommunicator>(std::move(comm));
      part_of_ring(ops, *comm, out);
      if (comm->rank() == 0) sent = comm->sent();
    }));
    return {out[0].values(), out[1].values(), out[2].values(), out[3].values(), sent};
  }

  // The bytes that rank 0 sends, by the formula in ring_attention.h.
  std::int64_t sent() const {
    const std::int64_t n = starts_.back() / case_.ranks, keys = in_[1].tensor.cols();
    return (case_.ranks - 1) * 2 * n * keys * (2 * size_of(type_) + 4);
  }

 private:
  static constexpr float kScale = 0.4f;

  void part_of_ring(Ops& ops, Communicator& comm, const std::vector<Matrix>& out) const {
    constexpr std::int64_t kBytes = 1 << 22;
    Arena saved(ops.allocate(kBytes), kBytes), scratch(ops.allocate(kBytes), kBytes);
    Ctx c{ops, saved, scratch};
    const std::int64_t n = starts_.back() / comm.size();
    const RowNumbers numbers = RowShare{comm.rank(), comm.size(), SequenceSharing::ring}.numbers(n);
    const auto take = [&](const Matrix& like) { return saved.take({n, like.tensor.cols()}, type_); };
    std::vector<Tensor> in;
    for (const Matrix& m : in_) {
      in.push_back(take(m));
      numbers.each_run(n, [&](std::int64_t begin, std::int64_t end, std::int64_t at) {
        ops.copy(in.back().slice(begin, end), m.tensor.slice(at, at + end - begin));
      });
    }
    const Tensor y = take(in_[0]), lse = saved.take({2 * case_.heads.query, n / 2}, DType::f32);
    const RingAttention::Gradients d{take(in_[0]), take(in_[1]), take(in_[2])};
    RingAttention ring(c, comm, case_.heads, {.starts = starts_, .window = case_.window},
                       {.scale = kScale, .cap = case_.cap});
    ring.forward(y, lse, in[0], in[1], in[2]);
    ring.backward(d, in[3], y, lse, in[0], in[1], in[2]);
    const Tensor made[] = {y, d.q, d.k, d.v};
    for (std::size_t i = 0; i < out.size(); ++i)
      numbers.each_run(n, [&](std::int64_t begin, std::int64_t end, std::int64_t at) {
        ops.copy(out[i].tensor.slice(at, at + end - begin), made[i].slice(begin, end));
      });
  }

  const Case& case_;
  DType type_;
  std::vector<std::int32_t> starts_{0};
  std::vector<Matrix> in_;
};

// Many short sequences, few long ones, some that span all chunks, some that begin and end at chunk borders;
// windows from two tokens to more than there are.
const Case kCases[] = {
    {{2, 2, 8}, {8}},
    {{2, 1, 8}, {2, 2}},
    {{4, 2, 20}, {150, 90}},
    {{3, 1, 16}, {60, 60, 60, 60}, 2},
    {{6, 3, 10}, {1, 70, 0, 5, 130, 34}, 4},
    {{3, 3, 24}, {300}, 3},
    {{2, 1, 16}, {250, 6}, 4, 2},
    {{2, 1, 16}, {250, 6}, 4, 30},
    {{2, 2, 16}, {256}, 4, 33},
    {{2, 1, 16}, {200, 56}, 4, 70},
    {{2, 1, 16}, {200, 40}, 2, 1000},
    {{4, 1, 16}, {33, 207}, 5, 100, 1.5f},
};

TEST(RingAttention, IsAttentionWithItsGradient) {
  for (const Case& c : kCases)
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(str(name_of(type), ", ", c.ranks, " ranks, first ", c.lengths[0], ", window ", c.window));
      const Whole whole(c, type);
      const Result want = whole.reference(), got = whole.in_a_ring(false);
      const double bound = type == DType::f32 ? 2e-12 : type == DType::bf16 ? 1e-4 : 2e-6;
      EXPECT_LT(test::nmse(got.y, want.y), bound);
      EXPECT_LT(test::nmse(got.dq, want.dq), bound);
      EXPECT_LT(test::nmse(got.dk, want.dk), bound);
      EXPECT_LT(test::nmse(got.dv, want.dv), bound);
      EXPECT_EQ(got.sent, whole.sent());
      EXPECT_TRUE(whole.in_a_ring(true) == got);
    }
}

}  // namespace
}  // namespace ft
