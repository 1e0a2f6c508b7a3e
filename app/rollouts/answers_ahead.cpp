#include "app/rollouts/answers_ahead.h"

#include <utility>

namespace ft {

void AnswersAhead::end() {
  stop_ = true;
  settle();
}

void AnswersAhead::begin(std::int64_t step,
                         std::function<SampledAnswers(const std::function<bool()>& stop)> work) {
  settle();
  put(step, {});
  if (!work) return;
  thread_ = std::thread([this, work = std::move(work)] {
    try {
      answers_ = work([this] { return stop_.load(); });
    } catch (...) {
      failed_ = std::current_exception();
    }
  });
}

void AnswersAhead::settle() {
  if (thread_.joinable()) thread_.join();
}

SampledAnswers AnswersAhead::take() {
  settle();
  step_ = -1;
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  return std::exchange(answers_, {});
}

void AnswersAhead::put(std::int64_t step, SampledAnswers answers) {
  step_ = step;
  answers_ = std::move(answers);
  failed_ = nullptr;
}

}  // namespace ft
