#include "engine/cpu/team.h"

#include <immintrin.h>

#include <algorithm>
#include <chrono>

#include "engine/core/require.h"

namespace ft::cpu {
namespace {

constexpr std::uint32_t kOpen = 1u << 31;

// Waits until `value` differs from `old`: awake at first, then asleep. The writer notifies.
std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kAwake{50};
  constexpr int kLooks = 32;  // between two reads of the clock
  const auto until = Clock::now() + kAwake;
  do {
    for (int i = 0; i < kLooks; ++i) {
      if (const std::uint32_t now = value.load(std::memory_order_acquire); now != old) return now;
      _mm_pause();
    }
  } while (Clock::now() < until);
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

Team::Team(int size) : shares_(static_cast<std::size_t>(std::max(size, 1))) {
  require(size >= 1, "a team needs a thread");
  for (int t = 1; t < size; ++t) others_.emplace_back([this, t] { serve(t); });
}

Team::~Team() {
  done_ = true;
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
  for (std::thread& t : others_) t.join();
}

int Team::size() const { return static_cast<int>(shares_.size()); }

void Team::run(std::int64_t items, Work work, const void* context) {
  constexpr std::int64_t kTakes = 16;  // a share is taken in about this many pieces
  if (items <= 1 || others_.empty()) {
    for (std::int64_t i = 0; i < items; ++i) work(context, i, 0);
    return;
  }
  const std::int64_t n = size();
  work_ = work;
  context_ = context;
  grain_ = std::max<std::int64_t>(1, items / (n * kTakes));
  for (std::int64_t s = 0; s < n; ++s) {
    Share& share = shares_[static_cast<std::size_t>(s)];
    share.next.store(items * s / n, std::memory_order_relaxed);
    share.end = items * (s + 1) / n;
  }
  gate_.store(kOpen, std::memory_order_release);
  calls_.fetch_add(1, std::memory_order_release);
  calls_.notify_all();
  take(0);
  // Closed: threads inside finish their pieces, and no other thread enters.
  std::uint32_t inside = gate_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  while (inside != 0) inside = wait_for_change(gate_, inside);
}

// Takes items of this thread's share, then the rest of the others' shares.
void Team::take(int thread) {
  const std::size_t n = shares_.size();
  for (std::size_t k = 0; k < n; ++k) {
    Share& share = shares_[(static_cast<std::size_t>(thread) + k) % n];
    for (;;) {
      const std::int64_t first = share.next.fetch_add(grain_, std::memory_order_relaxed);
      if (first >= share.end) break;
      const std::int64_t end = std::min(first + grain_, share.end);
      for (std::int64_t i = first; i < end; ++i) work_(context_, i, thread);
    }
  }
}

bool Team::enter() {
  std::uint32_t now = gate_.load(std::memory_order_relaxed);
  while (now & kOpen)
    if (gate_.compare_exchange_weak(now, now + 1, std::memory_order_acquire)) return true;
  return false;
}

void Team::serve(int thread) {
  for (std::uint32_t seen = 0;;) {
    seen = wait_for_change(calls_, seen);
    if (done_) return;
    if (!enter()) continue;
    take(thread);
    if (gate_.fetch_sub(1, std::memory_order_release) == 1) gate_.notify_all();
  }
}

}  // namespace ft::cpu
