// Wraps a communicator and reports the bytes and the duration of each collective: for the timeline of ft
// train --trace, which shows collectives beside the computation, and for logging.comms_logger.
#pragma once
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/ops/device.h"
#include "engine/ops/trace_call.h"
#include "engine/ranks/communicator.h"

namespace ft {

// A finished collective. `start` is on the steady clock.
struct Communicated {
  const char* what;        // all_gather
  std::string where;       // the unit at work: model.layers.0
  std::int64_t bytes = 0;  // all_gather and reduce_scatter: a rank's piece; others: the complete tensor
  std::int64_t sent = 0;   // bytes sent to other ranks
  double start = 0, seconds = 0;
};

class CommunicationObserver {
 public:
  virtual ~CommunicationObserver() = default;
  virtual void communicated(const Communicated&) = 0;  // on any thread, one at a time
};

// Records calls for a timeline, from several threads.
class CommunicationNotes final : public CommunicationObserver {
 public:
  void communicated(const Communicated& c) override {
    const std::lock_guard lock(mutex_);
    if (noting_)
      calls_.push_back({c.what, c.where, Phase::reduce, c.start, c.seconds, 0, static_cast<double>(c.sent)});
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    calls_.clear();
  }
  void start() {  // starts recording anew
    const std::lock_guard lock(mutex_);
    calls_.clear();
    noting_ = true;
  }
  std::vector<TraceCall> stop() {  // stops recording and returns the calls
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
  // observer: must outlive this. settle: called before and after each collective, for inner communicators
  // that only queue; must return when the queue is empty.
  TraceCommunicator(
      std::unique_ptr<Communicator> inner, CommunicationObserver& observer,
      std::function<void()> settle = [] {})
      : inner_(std::move(inner)), observer_(observer), settle_(std::move(settle)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_gather(Tensor all, Tensor mine) override {
    note("all_gather", mine.bytes(), [&] { inner_->all_gather(all, mine); });
  }
  void reduce_scatter(Tensor mine, Tensor all) override {
    note("reduce_scatter", mine.bytes(), [&] { inner_->reduce_scatter(mine, all); });
  }
  void all_reduce(Tensor x) override {
    note("all_reduce", x.bytes(), [&] { inner_->all_reduce(x); });
  }
  void all_to_all(Tensor to, Tensor from) override {
    note("all_to_all", to.bytes() / size(), [&] { inner_->all_to_all(to, from); });
  }
  void send_receive(Tensor out, int to, Tensor in, int from) override {
    note("send_receive", out ? out.bytes() : in.bytes(), [&] { inner_->send_receive(out, to, in, from); });
  }
  void all_gather_host(std::span<std::byte> all) override {
    note("all_gather", std::ssize(all) / size(), [&] { inner_->all_gather_host(all); });
  }
  void broadcast(std::span<std::byte> host, int root) override {
    note("broadcast", std::ssize(host), [&] { inner_->broadcast(host, root); });
  }
  void transfer(std::span<std::byte> host, int from, int to) override {
    note("transfer", std::ssize(host), [&] { inner_->transfer(host, from, to); });
  }
  void barrier() override {
    note("barrier", 0, [&] { inner_->barrier(); });
  }
  void abandon() override { inner_->abandon(); }
  std::unique_ptr<Communicator> split(RankSubset group) override {
    return std::make_unique<TraceCommunicator>(inner_->split(std::move(group)), observer_, settle_);
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
  void note(const char* what, std::int64_t bytes, Call call) {
    settle_();
    const double start = steady_seconds();
    const std::int64_t before = inner_->sent();
    call();
    settle_();
    observer_.communicated({what, where_, bytes, inner_->sent() - before, start, steady_seconds() - start});
  }

  std::unique_ptr<Communicator> inner_;
  CommunicationObserver& observer_;
  std::function<void()> settle_;
  std::string where_;
};

}  // namespace ft
