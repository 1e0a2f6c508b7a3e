#include "engine/cuda/event_stamps.h"

#include "engine/core/error.h"
#include "engine/cuda/status.h"

namespace ft::cuda {

EventStamps::EventStamps(const Gpu& gpu, std::int64_t most) : gpu_(gpu) {
  gpu_.use();
  events_.resize(static_cast<std::size_t>(most));
  for (cudaEvent_t& e : events_) check(cudaEventCreateWithFlags(&e, cudaEventDefault), "creating an event");
}

EventStamps::~EventStamps() {
  for (cudaEvent_t e : events_) cudaEventDestroy(e);
}

std::size_t EventStamps::mark() {
  require(room() > 0, "stamps: more marks than asked for");
  if (used_ == 0) origin_ = steady_seconds();
  check(cudaEventRecord(events_[used_], gpu_.stream()), "a mark of time");
  return used_++;
}

std::vector<double> EventStamps::take() {
  std::vector<double> times;
  if (used_ > 0 && cudaEventQuery(events_[used_ - 1]) != cudaSuccess) gpu_.synchronize();
  for (std::size_t i = 0; i < used_; ++i) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, events_[0], events_[i]), "reading marks of time");
    times.push_back(origin_ + 1e-3 * static_cast<double>(milliseconds));
  }
  used_ = 0;
  return times;
}

}  // namespace ft::cuda
