// Works that a separate thread runs one after another, in the order of give(). The first work that throws
// ends the queue: wait() rethrows its exception from then on.
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
  void wait(Ticket);  // waits for that work and all earlier ones
  void wait_all();
  // Drops the works that have not begun. Returns when the running work has ended.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable given_, done_changed_;
  std::deque<std::function<void()>> works_;
  Ticket last_ = 0, done_ = 0;
  std::exception_ptr failed_;  // set when the thread has ended by an exception
  bool over_ = false;
  std::thread thread_;  // last member: it uses the others
};

}  // namespace ft
