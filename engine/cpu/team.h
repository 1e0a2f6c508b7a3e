// Threads that share loops; the caller is one of them. A loop ends when its items are done. It does not wait
// for a thread that has not started yet, so that a core that another program uses costs only its own share
// (OpenMP's barriers wait for every thread, spinning). Between loops threads stay awake for some tens of
// microseconds, because a step's next loop mostly comes within that time, and then sleep.
//
// Kernels, which are compiled per target, include this header: it must not have inline functions that targets
// would share.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace ft::cpu {

class Team {
 public:
  // Makes a team of `size` threads, including the caller; with one, loops run on the caller.
  explicit Team(int size);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int size() const;

  // Calls work(context, item, thread) for every item in [0, items). Each thread begins with its own
  // contiguous share, and then helps the others. `thread`, below size(), never has two items at once: it is
  // the number of the workspace to use. Only one loop runs at a time; work neither throws nor starts another
  // loop.
  using Work = void (*)(const void* context, std::int64_t item, int thread);
  void run(std::int64_t items, Work work, const void* context);

 private:
  struct alignas(64) Share {
    std::atomic<std::int64_t> next;
    std::int64_t end;
  };
  void serve(int thread);
  void take(int thread);
  bool enter();

  std::vector<Share> shares_;  // by thread
  std::vector<std::thread> others_;

  // The current loop; written while no thread is inside.
  Work work_ = nullptr;
  const void* context_ = nullptr;
  std::int64_t grain_ = 1;  // items taken at once

  std::atomic<std::uint32_t> gate_{0};  // number of other threads inside the loop; kOpen while they may enter
  std::atomic<std::uint32_t> calls_{0};  // number of loops so far, which sleeping threads watch
  std::atomic<bool> done_{false};
};

// Calls f(item, thread) for all items; `alone`: on the caller. A kernel's F is a type of its target, so this
// is compiled for each.
template <class F>
void share_out(Team& team, std::int64_t items, bool alone, const F& f) {
  if (alone) {
    for (std::int64_t i = 0; i < items; ++i) f(i, 0);
  } else {
    team.run(
        items, [](const void* g, std::int64_t i, int thread) { (*static_cast<const F*>(g))(i, thread); }, &f);
  }
}

}  // namespace ft::cpu
