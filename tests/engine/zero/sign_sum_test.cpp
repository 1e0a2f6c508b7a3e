// Sums of signs against the formulas in double precision.
#include "engine/zero/sign_sum.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/zero/state_spec.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Tensor view(Floats& x) {
  return {reinterpret_cast<std::byte*>(x.data()), DType::f32, {static_cast<std::int64_t>(x.size())}};
}

double magnitude(const Doubles& x, std::size_t from, std::size_t count) {
  double squares = 0;
  for (std::size_t i = from; i < from + count; ++i) squares += x[i] * x[i];
  return std::sqrt(squares / static_cast<double>(count));
}
double signed_as(double magnitude, double x) { return x < 0 ? -magnitude : magnitude; }

// The state of all ranks.
struct Reference {
  std::vector<Doubles> x;  // of each rank
  Doubles lost, mean;

  void sum() {
    const std::size_t n = lost.size(), ranks = x.size();
    Doubles all(n);
    for (Doubles& own : x) {
      const double s = magnitude(own, 0, n);
      for (std::size_t i = 0; i < n; ++i) {
        all[i] += signed_as(s, own[i]) / static_cast<double>(ranks);
        own[i] -= signed_as(s, own[i]);
      }
    }
    for (std::size_t i = 0; i < n; ++i) all[i] += lost[i];
    for (std::size_t q = 0; q < ranks; ++q) {
      const Share share = Share::of(static_cast<std::int64_t>(n), static_cast<std::int64_t>(q),
                                    static_cast<std::int64_t>(ranks));
      const auto first = static_cast<std::size_t>(share.first), count = static_cast<std::size_t>(share.count);
      const double t = count > 0 ? magnitude(all, first, count) : 0;
      for (std::size_t i = first; i < first + count; ++i) {
        mean[i] = signed_as(t, all[i]);
        lost[i] = all[i] - mean[i];
      }
    }
  }
};

double start(std::size_t rank, std::size_t i) {
  return 0.1 * std::sin(static_cast<double>(7 * i + 13 * rank + 1)) + 0.05 * std::cos(static_cast<double>(i));
}

// Three sums in a row, each with the remainder of the previous one; some lengths are not divisible by the
// number of ranks.
TEST(SignSum, FollowsTheFormulasOnEveryRank) {
  const std::vector<std::size_t> lengths{512, 3, 70, 1};
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(ranks);
    const auto many = static_cast<std::size_t>(ranks);
    std::vector<Reference> want;
    for (const std::size_t n : lengths) want.push_back({{many, Doubles(n)}, Doubles(n), Doubles(n)});
    for (int turn = 0; turn < 3; ++turn)
      for (Reference& w : want) {
        for (std::size_t r = 0; r < many; ++r)
          for (std::size_t i = 0; i < w.lost.size(); ++i) w.x[r][i] += start(r, i);
        w.sum();
      }
    std::vector<std::vector<Floats>> means(many);
    run_ranks(ranks, true, [&](Communicator& comm) {
      cpu::CpuOps ops(1);
      Arena scratch(ops.allocate(1 << 16), 1 << 16);
      const auto rank = static_cast<std::size_t>(comm.rank());
      std::vector<Floats> mean, x, lost;
      std::int64_t bits = 0;
      for (const std::size_t n : lengths) {
        const auto length = static_cast<std::int64_t>(n);
        mean.emplace_back(n);
        x.emplace_back(n);
        lost.emplace_back(static_cast<std::size_t>(Share::of(length, comm.rank(), ranks).count));
        bits += Share::most(length, ranks) / 8;
      }
      const std::int64_t before = comm.sent();
      for (int turn = 0; turn < 3; ++turn) {
        std::vector<SignSum> sums;
        for (std::size_t k = 0; k < lengths.size(); ++k) {
          for (std::size_t i = 0; i < lengths[k]; ++i) x[k][i] += static_cast<float>(start(rank, i));
          sums.push_back({view(mean[k]), view(x[k]), view(lost[k])});
        }
        sum_signs(ops, comm, sums, scratch);
      }
      const std::int64_t message = (4 * std::ssize(lengths) + bits + 3) / 4 * 4;
      EXPECT_EQ(comm.sent() - before, 3 * 2 * message * (ranks - 1));
      for (std::size_t k = 0; k < lengths.size(); ++k)
        for (std::size_t i = 0; i < lengths[k]; ++i) {
          EXPECT_NEAR(mean[k][i], want[k].mean[i], 1e-6) << k << " " << i;
          EXPECT_NEAR(x[k][i], want[k].x[rank][i], 1e-6) << k << " " << i;
        }
      means[rank] = mean;
    });
    for (std::size_t r = 1; r < many; ++r) EXPECT_EQ(means[r], means[0]);
  }
}

}  // namespace
}  // namespace ft
