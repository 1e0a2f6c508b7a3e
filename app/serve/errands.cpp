#include "app/serve/errands.h"

#include <utility>

namespace ft {

bool Errands::run(std::function<void()> work) {
  auto errand = std::make_shared<Errand>();
  errand->work = std::move(work);
  std::unique_lock lock(mutex_);
  if (left_) return false;
  waiting_.push_back(errand);
  changed_.wait(lock, [&] { return errand->done || left_; });
  if (errand->failed) std::rethrow_exception(errand->failed);
  return errand->done;
}

void Errands::run_waiting() {
  for (;;) {
    const std::lock_guard lock(mutex_);  // also while it runs, so that nobody leaves it half-way
    if (waiting_.empty()) return;
    const std::shared_ptr<Errand> errand = std::move(waiting_.front());
    waiting_.pop_front();
    try {
      errand->work();
    } catch (...) {
      errand->failed = std::current_exception();
    }
    errand->done = true;
    changed_.notify_all();
  }
}

void Errands::leave() {
  const std::lock_guard lock(mutex_);
  left_ = true;
  waiting_.clear();
  changed_.notify_all();
}

}  // namespace ft
