#include "engine/train/reports/best_effort.h"

#include "engine/core/error.h"

namespace ft {

void LostRows::attempt(const std::function<void()>& write) {
  try {
    write();
  } catch (const UserError& e) {
    if (e.code != Exit::storage) throw;
    if (lost_++ > 0) return;
    reason_ = e.what();
    warned_.warning(reason_ + "; the run goes on without these rows");
  }
}

void LostRows::tell() const {
  if (lost_ > 0) warned_.warning(str(reason_, "; writes that were lost: ", lost_));
}

}  // namespace ft
