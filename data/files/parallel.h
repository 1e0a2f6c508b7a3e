// Runs a loop over independent items on several threads.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace ft {

// Calls body(i) for every i in [0, n), on fewer threads if the machine has no more. If some calls throw, the
// exception of the smallest i is rethrown, whatever the number of threads.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t threads, const Body& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(n));
  std::atomic<std::int64_t> next = 0;
  const auto work = [&] {
    for (std::int64_t i = next++; i < n; i = next++) {
      try {
        body(i);
      } catch (...) {
        errors[static_cast<std::size_t>(i)] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (std::int64_t t = 1; t < std::min(threads, n); ++t) others.emplace_back(work);
    } catch (const std::system_error&) {  // fewer threads than wanted are fine
    }
    work();
  }
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace ft
