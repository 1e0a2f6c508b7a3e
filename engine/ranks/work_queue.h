// Works that a thread of its own does, one after another, in the order in which they were given. The first
// that throws ends it: wait() throws that from then on.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

namespace ft {

class WorkQueue {
 public:
  using Ticket = std::uint64_t;

  WorkQueue() : thread_([this] { run(); }) {}
  ~WorkQueue() { stop(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  Ticket give(std::function<void()> work);
  void wait(Ticket);  // until that work and those before it are done
  void wait_all();
  // What has not begun never will; returns when what has begun is over.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable given_, done_changed_;
  std::deque<std::function<void()>> works_;
  Ticket last_ = 0, done_ = 0;
  std::exception_ptr failed_;  // the thread has ended
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace ft
