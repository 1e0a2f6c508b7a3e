#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "tests/support/ranks.h"

namespace ft {
namespace {

template <class T>
struct Values {
  std::vector<T> v;
  explicit Values(std::int64_t n) : v(static_cast<std::size_t>(n)) {}
  Tensor tensor() {
    static T none{};  // an empty tensor with an address
    return {reinterpret_cast<std::byte*>(v.empty() ? &none : v.data()),
            DTypeOf<T>::value,
            {static_cast<std::int64_t>(v.size())}};
  }
};

// Returns element i of rank r: numbers of very different sizes, so that another order of a sum gives another
// result.
template <class T>
T value(int rank, std::int64_t i) {
  const auto mixed = static_cast<std::uint32_t>((i * 2654435761 + rank * 40503 + 7) & 0xffffffff);
  const float f = (static_cast<float>(mixed % 20011) - 10005.f) * (mixed & 1024 ? 1e-4f : 3.f);
  if constexpr (std::is_same_v<T, double>) {
    return f * 1.000000001;
  } else {
    T y;
    from_float(y, f);
    return y;
  }
}

template <class T>
T sum_in_order(int ranks, std::int64_t i) {
  if constexpr (std::is_same_v<T, double>) {
    double s = value<T>(0, i);
    for (int r = 1; r < ranks; ++r) s += value<T>(r, i);
    return s;
  } else {
    float s = to_float(value<T>(0, i));
    for (int r = 1; r < ranks; ++r) s += to_float(value<T>(r, i));
    T y;
    from_float(y, s);
    return y;
  }
}

template <class T>
bool same(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

// The last size takes more than one round of a sum.
constexpr std::int64_t kSizes[] = {0, 1, 2, 3, 7, 64, 1000, 270'001};

template <class T>
void check_sums(MeshCommunicator& c, std::int64_t each) {
  const int N = c.size();
  Values<T> all(each * N), mine(each), whole(each);
  for (std::int64_t i = 0; i < each * N; ++i) all.v[static_cast<std::size_t>(i)] = value<T>(c.rank(), i);
  for (std::int64_t i = 0; i < each; ++i) whole.v[static_cast<std::size_t>(i)] = value<T>(c.rank(), i);
  c.reduce_scatter(mine.tensor(), all.tensor());
  Tensor flat = all.tensor();
  const Tensor place(flat.data + each * c.rank() * size_of(flat.dtype), flat.dtype, {each});
  c.reduce_scatter(place, flat);  // into the rank's part of the input
  c.all_reduce(whole.tensor());
  for (std::int64_t i = 0; i < each; ++i) {
    const auto k = static_cast<std::size_t>(i), in_all = static_cast<std::size_t>(each * c.rank() + i);
    const T want = sum_in_order<T>(N, each * c.rank() + i);
    ASSERT_TRUE(same(mine.v[k], want)) << i;
    ASSERT_TRUE(same(all.v[in_all], want)) << i;
    ASSERT_TRUE(same(whole.v[k], sum_in_order<T>(N, i))) << i;
  }
}

// Returns the expected sum of values that are sent as T.
template <class T>
float narrow_sum(int ranks, std::int64_t i, float scale) {
  if (ranks == 1) return value<float>(0, i) * 1e-2f;  // nothing is sent
  const auto round = [](float v) {
    T t;
    from_float(t, v);
    return to_float(t);
  };
  float s = 0;
  for (int r = 0; r < ranks; ++r) s += round(value<float>(r, i) * 1e-2f * scale);
  return round(s) / scale;
}

template <class T>
void check_narrow_sums(MeshCommunicator& c, std::int64_t each, float scale) {
  const int N = c.size();
  Values<float> all(each * N), mine(each), whole(each);
  for (std::int64_t i = 0; i < each * N; ++i)
    all.v[static_cast<std::size_t>(i)] = value<float>(c.rank(), i) * 1e-2f;
  for (std::int64_t i = 0; i < each; ++i)
    whole.v[static_cast<std::size_t>(i)] = value<float>(c.rank(), i) * 1e-2f;
  const std::int64_t before = c.sent();
  c.reduce_scatter(mine.tensor(), all.tensor());
  EXPECT_EQ(c.sent() - before, 2 * each * (N - 1));
  const Tensor flat = all.tensor();
  c.reduce_scatter(Tensor(flat.data + each * c.rank() * 4, flat.dtype, {each}), flat);
  c.all_reduce(whole.tensor());
  for (std::int64_t i = 0; i < each; ++i) {
    const auto k = static_cast<std::size_t>(i), in_all = static_cast<std::size_t>(each * c.rank() + i);
    const float want = narrow_sum<T>(N, each * c.rank() + i, scale);
    ASSERT_TRUE(same(mine.v[k], want)) << i << " " << mine.v[k] << " " << want;
    ASSERT_TRUE(same(all.v[in_all], want)) << i;
    ASSERT_TRUE(same(whole.v[k], narrow_sum<T>(N, i, scale))) << i;
  }
}

class Communicators : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Communicators, testing::Values(1, 2, 3, 4));

TEST_P(Communicators, SumsAreThoseInRankOrder) {
  run_ranks(GetParam(), [](MeshCommunicator& c) {
    for (const std::int64_t n : kSizes) {
      check_sums<float>(c, n);
      check_sums<bf16>(c, n);
      check_sums<double>(c, n);
    }
  });
}

// reduce_scatter and all_reduce give the same bits on all ranks; f64 is sent without rounding.
TEST_P(Communicators, SumsThatTravelIn16BitsAreRoundedOnceOnEachSide) {
  for (const float scale : {1.0f, static_cast<float>(GetParam())})
    for (const DType type : {DType::bf16, DType::f16})
      rethrow_first(run_ranks_catching(GetParam(),
                                       [&](MeshCommunicator& c) {
                                         for (const std::int64_t each : kSizes)
                                           type == DType::bf16 ? check_narrow_sums<bf16>(c, each, scale)
                                                               : check_narrow_sums<f16>(c, each, scale);
                                         check_sums<double>(c, 1000);
                                       },
                                       20, {.dtype = type, .scale = scale}));
}

TEST_P(Communicators, GatherInRankOrder) {
  run_ranks(GetParam(), [](MeshCommunicator& c) {
    for (const std::int64_t n : kSizes) {
      Values<bf16> mine(n), all(n * c.size());
      for (std::int64_t i = 0; i < n; ++i) mine.v[static_cast<std::size_t>(i)] = value<bf16>(c.rank(), i);
      c.all_gather(all.tensor(), mine.tensor());
      for (std::int64_t i = 0; i < n * c.size(); ++i)
        ASSERT_TRUE(same(all.v[static_cast<std::size_t>(i)], value<bf16>(static_cast<int>(i / n), i % n)));
    }
  });
}

TEST_P(Communicators, EveryRankCanBroadcast) {
  run_ranks(GetParam(), [](MeshCommunicator& c) {
    for (int root = 0; root < c.size(); ++root)
      for (const std::size_t n : {0, 1, 300, 3'000'000}) {
        std::vector<std::byte> v(n, std::byte(c.rank()));
        c.broadcast(v, root);
        ASSERT_EQ(v, std::vector<std::byte>(n, std::byte(root)));
      }
    c.barrier();
  });
}

// An all_reduce sends 2 (N-1)/N of the bytes, each of its halves (N-1)/N.
TEST_P(Communicators, SendTheBytesOfTheFormulas) {
  run_ranks(GetParam(), [](MeshCommunicator& c) {
    const std::int64_t N = c.size(), n = 12 * 1000;
    Values<float> all(n), mine(n / N);
    std::int64_t before = c.sent();
    const auto since = [&] { return c.sent() - std::exchange(before, c.sent()); };
    c.reduce_scatter(mine.tensor(), all.tensor());
    EXPECT_EQ(since(), 4 * n * (N - 1) / N);
    c.all_gather(all.tensor(), mine.tensor());
    EXPECT_EQ(since(), 4 * n * (N - 1) / N);
    c.all_reduce(all.tensor());
    EXPECT_EQ(since(), 2 * 4 * n * (N - 1) / N);
  });
}

TEST(LostRanks, ADeadOneIsNamedByAllOthers) {
  const auto thrown = run_ranks_catching(4, [](MeshCommunicator& c) {
    c.barrier();
    if (c.rank() == 2) throw std::runtime_error("dies");
    Values<float> x(300'000);
    for (int i = 0; i < 3; ++i) c.all_reduce(x.tensor());
  });
  for (const std::size_t r : {0, 1, 3}) {
    const Said s = said(thrown[r]);
    EXPECT_EQ(s.code, Exit::peer_lost) << r;
    EXPECT_NE(s.what.find("rank 2 (a thread) "), std::string::npos) << s.what;
    EXPECT_NE(s.what.find(" number "), std::string::npos) << s.what;
  }
}

TEST(LostRanks, ASilentOneIsNamedInTime) {
  const auto start = Clock::now();
  const auto thrown = run_ranks_catching(
      3,
      [](MeshCommunicator& c) {
        c.barrier();
        if (c.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(3000));
        c.barrier();
      },
      1.5);
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(12));
  for (const std::size_t r : {0, 2}) {
    const Said s = said(thrown[r]);
    EXPECT_EQ(s.code, Exit::hang) << r;
    EXPECT_NE(s.what.find(
                  "rank 1 (a thread) has not answered for 1.5 s, before the first step, in barrier number 2"),
              std::string::npos)
        << s.what;
    EXPECT_NE(s.what.find("it is alive, before the first step, after barrier number 1"), std::string::npos)
        << s.what;
  }
}

TEST(LostRanks, ARankInAnotherCollectiveIsNamed) {
  const auto thrown = run_ranks_catching(2, [](MeshCommunicator& c) {
    Values<float> x(8), y(16);
    if (c.rank() == 0)
      c.all_reduce(x.tensor());
    else
      c.all_gather(y.tensor(), x.tensor());
  });
  for (const auto& t : thrown) {
    EXPECT_EQ(said(t).code, Exit::mismatch) << said(t).what;
    EXPECT_NE(said(t).what.find(" is in all_"), std::string::npos) << said(t).what;
  }
}

}  // namespace
}  // namespace ft
