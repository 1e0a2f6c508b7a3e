// A BlockMover that uses pread and pwrite in a few threads.
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/files/block_mover.h"

namespace ft {
namespace {

constexpr int kMostThreads = 4;

void move(const Transfer& whole) {
  TransferProgress progress(whole);
  ssize_t n = 0;
  do {
    const Transfer& t = progress.left();
    const auto bytes = static_cast<std::size_t>(t.bytes);
    n = t.put ? pwrite(t.file->fd, t.data, bytes, t.at) : pread(t.file->fd, t.data, bytes, t.at);
  } while (progress.take(n < 0 ? -errno : n));
}

class ThreadMover final : public BlockMover {
 public:
  explicit ThreadMover(int slots) {
    for (int i = 0; i < std::min(slots, kMostThreads); ++i) threads_.emplace_back([this] { work(); });
  }
  ~ThreadMover() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
      given_.notify_all();
    }
    for (std::thread& t : threads_) t.join();
  }

  void start(int slot, const Transfer& t) override {
    const std::lock_guard lock(mutex_);
    asked_.emplace_back(slot, t);
    given_.notify_one();
  }
  int wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failed_ || !done_.empty() || woken_; });
    if (failed_) std::rethrow_exception(failed_);
    if (done_.empty()) return woken_ = false, kWoken;
    const int slot = done_.front();
    done_.pop_front();
    return slot;
  }
  void wake() override {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    changed_.notify_one();
  }
  const char* name() const override { return "threads"; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      given_.wait(lock, [&] { return over_ || !asked_.empty(); });
      if (over_) return;
      const auto [slot, transfer] = asked_.front();
      asked_.pop_front();
      lock.unlock();
      std::exception_ptr thrown;
      try {
        move(transfer);
      } catch (...) {
        thrown = std::current_exception();
      }
      lock.lock();
      if (thrown)
        failed_ = thrown;
      else
        done_.push_back(slot);
      changed_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable given_, changed_;
  std::deque<std::pair<int, Transfer>> asked_;
  std::deque<int> done_;
  std::exception_ptr failed_;
  bool woken_ = false, over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<BlockMover> make_thread_mover(int slots) { return std::make_unique<ThreadMover>(slots); }

}  // namespace ft
