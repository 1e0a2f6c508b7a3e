// Work that clients' threads have the computing thread do between two passes.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace ft {

class Errands {
 public:
  // Waits until the computing thread has run the work, and throws its exception. Returns false if that thread
  // computes no more.
  bool run(std::function<void()> work);

  // For the computing thread:
  void run_waiting();
  void leave();  // runs no more work

 private:
  struct Errand {
    std::function<void()> work;
    bool done = false;
    std::exception_ptr failed;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Errand>> waiting_;
  bool left_ = false;
};

}  // namespace ft
