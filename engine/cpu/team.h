// Threads that share loops, the caller being one of them. A loop is over when its items are done: a thread
// that has not come yet is not waited for, so that a core that somebody else uses costs its own share and no
// more (OpenMP's barriers wait for every thread, spinning). Between loops threads stay awake for some tens of
// microseconds, in which a step's next loop mostly comes, and then sleep.
//
// Kernels, which are compiled per target, include this header: no inline functions that targets would share.
#pragma once
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace ft::cpu {

class Team {
 public:
  // `size` threads with the caller; one: loops are simply run.
  explicit Team(int size);
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team();

  int size() const;

  // Calls work(context, item, thread) for every item in [0, items). Each thread begins with a share of its
  // own, neighbours together, and then helps the others. `thread`, below size(), runs no two items at once:
  // it names the workspace to use. One loop at a time; work neither throws nor runs another loop.
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

  // The loop: written while no thread is inside.
  Work work_ = nullptr;
  const void* context_ = nullptr;
  std::int64_t grain_ = 1;  // items taken at once

  std::atomic<std::uint32_t> gate_{0};   // others inside the loop; kOpen while they may come in
  std::atomic<std::uint32_t> calls_{0};  // loops so far: what sleepers watch
  std::atomic<bool> done_{false};
};

// f(item, thread) for all items; `alone`: by the caller. A kernel's F is a type of its target, so this is
// compiled for each.
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
