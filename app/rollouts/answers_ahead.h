// Answers that a thread of rank 0 asks for while the run trains. All ranks know their step.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>

#include "app/rollouts/rollout_server.h"

namespace ft {

class AnswersAhead {
 public:
  AnswersAhead() = default;
  ~AnswersAhead() { end(); }
  AnswersAhead(const AnswersAhead&) = delete;
  AnswersAhead& operator=(const AnswersAhead&) = delete;

  // Returns the step whose answers were asked for; -1: none.
  std::int64_t step() const { return step_; }
  // Begins to ask. work: empty on ranks other than 0; it gets a function that returns true when it must end.
  void begin(std::int64_t step, std::function<SampledAnswers(const std::function<bool()>& stop)> work);
  void end();  // ends the requests
  // Waits until the thread has ended; then no request is open.
  void settle();
  bool failed() const { return failed_ != nullptr; }  // after settle()
  const SampledAnswers& answers() const { return answers_; }
  // Waits, and returns the answers: none on ranks other than 0. Throws the error of the work.
  SampledAnswers take();
  void put(std::int64_t step, SampledAnswers);  // as if they had been asked for

 private:
  std::int64_t step_ = -1;
  SampledAnswers answers_;
  std::exception_ptr failed_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace ft
