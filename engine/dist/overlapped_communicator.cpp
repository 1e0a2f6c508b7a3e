#include "engine/dist/overlapped_communicator.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

namespace ft {

class OverlappedCommunicator::Queue {
 public:
  Queue() : thread_([this] { run(); }) {}
  ~Queue() { stop(); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  Ticket give(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    given_.notify_one();
    return ++last_;
  }
  void wait(Ticket ticket) {
    std::unique_lock lock(mutex_);
    done_changed_.wait(lock, [&] { return done_ >= ticket || failed_; });
    if (failed_) std::rethrow_exception(failed_);
  }
  void wait_all() {
    Ticket last = 0;
    {
      const std::lock_guard lock(mutex_);
      last = last_;
    }
    wait(last);
  }
  // What has not begun never will; returns when what has begun is over.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      works_.clear();
      given_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
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

  std::mutex mutex_;
  std::condition_variable given_, done_changed_;
  std::deque<std::function<void()>> works_;
  Ticket last_ = 0, done_ = 0;
  std::exception_ptr failed_;  // the thread has ended
  bool over_ = false;
  std::thread thread_;  // last: it uses the others
};

OverlappedCommunicator::OverlappedCommunicator(std::unique_ptr<Communicator> inner)
    : queue_(std::make_shared<Queue>()), inner_(std::move(inner)), whole_(true) {}

OverlappedCommunicator::OverlappedCommunicator(std::shared_ptr<Queue> queue,
                                               std::unique_ptr<Communicator> inner)
    : queue_(std::move(queue)), inner_(std::move(inner)) {}

OverlappedCommunicator::~OverlappedCommunicator() {
  if (whole_) queue_->stop();
}

Communicator& OverlappedCommunicator::idle() {
  queue_->wait_all();
  return *inner_;
}

Communicator::Ticket OverlappedCommunicator::start(Work work) {
  return queue_->give([this, work = std::move(work)] { work(*inner_); });
}

void OverlappedCommunicator::finish(Ticket ticket) { queue_->wait(ticket); }

void OverlappedCommunicator::abandon() {
  inner_->abandon();
  queue_->stop();
}

std::unique_ptr<Communicator> OverlappedCommunicator::split(std::vector<int> members) {
  auto part = idle().split(std::move(members));
  return std::unique_ptr<Communicator>(new OverlappedCommunicator(queue_, std::move(part)));
}

std::int64_t OverlappedCommunicator::sent() const {
  queue_->wait_all();
  return inner_->sent();
}

}  // namespace ft
