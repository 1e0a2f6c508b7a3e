#include "engine/ranks/work_queue.h"

namespace ft {

WorkQueue::Ticket WorkQueue::give(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  works_.push_back(std::move(work));
  given_.notify_one();
  return ++last_;
}

void WorkQueue::wait(Ticket ticket) {
  std::unique_lock lock(mutex_);
  done_changed_.wait(lock, [&] { return done_ >= ticket || failed_; });
  if (failed_) std::rethrow_exception(failed_);
}

void WorkQueue::wait_all() {
  Ticket last = 0;
  {
    const std::lock_guard lock(mutex_);
    last = last_;
  }
  wait(last);
}

void WorkQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    works_.clear();
    given_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void WorkQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    given_.wait(lock, [&] { return over_ || !works_.empty(); });
    if (over_) return;
    const std::function<void()> work = std::move(works_.front());
    works_.pop_front();
    lock.unlock();
    std::exception_ptr thrown;
    try {
      work();
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    ++done_;
    failed_ = thrown;
    done_changed_.notify_all();
    if (failed_) return;
  }
}

}  // namespace ft
