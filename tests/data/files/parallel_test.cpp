#include "data/files/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace ft {
namespace {

TEST(ParallelFor, CallsEachItemOnce) {
  std::vector<std::atomic<int>> calls(1000);
  parallel_for(1000, 8, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
  for (const auto& c : calls) EXPECT_EQ(c, 1);
}

TEST(ParallelFor, RethrowsTheFirstFailureForAnyNumberOfThreads) {
  for (const std::int64_t threads : {1, 3, 16}) try {
      parallel_for(100, threads, [](std::int64_t i) {
        if (i % 10 == 7) throw std::runtime_error(std::to_string(i));
      });
      ADD_FAILURE();
    } catch (const std::runtime_error& e) {
      EXPECT_STREQ(e.what(), "7");
    }
}

}  // namespace
}  // namespace ft
