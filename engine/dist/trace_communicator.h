// Wraps any communicator and records its collectives, for the timeline that ft train --trace writes, which
// shows them beside the computation.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "engine/dist/communicator.h"
#include "engine/ops/trace_ops.h"

namespace ft {

// What several threads note. Times are those of the steady clock.
class CommunicationNotes {
 public:
  void add(TraceCall call) {
    const std::lock_guard lock(mutex_);
    if (noting_) calls_.push_back(std::move(call));
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    calls_.clear();
  }
  std::vector<TraceCall> stop() {  // noting, and what was noted
    const std::lock_guard lock(mutex_);
    noting_ = false;
    return std::move(calls_);
  }

 private:
  std::mutex mutex_;
  std::vector<TraceCall> calls_;
  bool noting_ = true;
};

class TraceCommunicator final : public Communicator {
 public:
  // notes: must outlive it.
  TraceCommunicator(std::unique_ptr<Communicator> inner, CommunicationNotes& notes)
      : inner_(std::move(inner)), notes_(notes) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_gather(Tensor all, Tensor mine) override {
    note("all_gather", [&] { inner_->all_gather(all, mine); });
  }
  void reduce_scatter(Tensor mine, Tensor all) override {
    note("reduce_scatter", [&] { inner_->reduce_scatter(mine, all); });
  }
  void all_reduce(Tensor x) override {
    note("all_reduce", [&] { inner_->all_reduce(x); });
  }
  void all_gather_host(std::span<std::byte> all) override {
    note("all_gather", [&] { inner_->all_gather_host(all); });
  }
  void broadcast(std::span<std::byte> host, int root) override {
    note("broadcast", [&] { inner_->broadcast(host, root); });
  }
  void transfer(std::span<std::byte> host, int from, int to) override {
    note("transfer", [&] { inner_->transfer(host, from, to); });
  }
  void barrier() override {
    note("barrier", [&] { inner_->barrier(); });
  }
  void abandon() override { inner_->abandon(); }
  std::unique_ptr<Communicator> split(std::vector<int> members) override {
    return std::make_unique<TraceCommunicator>(inner_->split(std::move(members)), notes_);
  }
  void at_step(std::int64_t step) override { inner_->at_step(step); }
  void enter(std::string_view what) override {
    where_ = what;
    inner_->enter(what);
  }
  std::string via() const override { return inner_->via(); }
  std::int64_t memory() const override { return inner_->memory(); }
  std::int64_t sent() const override { return inner_->sent(); }

 private:
  template <class Call>
  void note(const char* what, Call call) {
    const double start = steady_seconds();
    const std::int64_t before = inner_->sent();
    call();
    notes_.add(
        {what, where_, start, steady_seconds() - start, 0, static_cast<double>(inner_->sent() - before)});
  }

  std::unique_ptr<Communicator> inner_;
  CommunicationNotes& notes_;
  std::string where_;
};

}  // namespace ft
