// Times of a GPU's work by events in its stream.
#pragma once
#include <vector>

#include "engine/cuda/gpu.h"
#include "engine/ops/stamps.h"

namespace ft::cuda {

class EventStamps final : public Stamps {
 public:
  EventStamps(const Gpu& gpu, std::int64_t most);  // creates all events
  ~EventStamps() override;
  EventStamps(const EventStamps&) = delete;
  EventStamps& operator=(const EventStamps&) = delete;

  std::size_t mark() override;
  std::int64_t room() const override { return static_cast<std::int64_t>(events_.size() - used_); }
  std::vector<double> take() override;

 private:
  const Gpu& gpu_;
  std::vector<cudaEvent_t> events_;
  std::size_t used_ = 0;
  // time when the first one was queued; the stream is empty after take(), so it happened then
  double origin_ = 0;
};

}  // namespace ft::cuda
