// Parallel work on files with a few threads: copies and hashes, which gain from two to eight cores.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace ft {

// Calls f(i) for i in [0, n), in any order. The first exception stops the calls and is rethrown.
template <class F>
void in_parallel(std::int64_t n, const F& f) {
  constexpr std::int64_t kMostThreads = 8;
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (std::int64_t i; (i = next++) < n;) try {
        f(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = n;
      }
  };
  const auto cores = static_cast<std::int64_t>(std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  try {
    for (std::int64_t t = 1; t < std::min({cores, kMostThreads, n}); ++t) others.emplace_back(work);
  } catch (const std::system_error&) {  // fewer threads than wanted are fine
  }
  work();
  others.clear();  // joins
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ft
