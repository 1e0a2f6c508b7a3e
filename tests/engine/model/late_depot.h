// A depot that copies as late as its contract allows.
#pragma once
#include <cstring>
#include <vector>

#include "engine/core/error.h"
#include "engine/zero/depot.h"

namespace ft::test {

// Copies bytes only in finish(), as late as possible.
class LateDepot final : public Depot {
 public:
  void open() override { memory_.resize(static_cast<std::size_t>(size())); }
  void finish(Ticket t) override {
    for (; done_ < t; ++done_) {
      const Request& r = requests_[done_];
      std::byte* here = memory_.data() + r.at;
      std::memcpy(r.put ? here : r.tensor.data, r.put ? r.tensor.data : here,
                  static_cast<std::size_t>(r.tensor.bytes()));
    }
  }
  Home home() const override { return Home::host; }

 private:
  struct Request {
    Tensor tensor;
    std::int64_t at;
    bool put;
  };
  Ticket start(Tensor t, std::int64_t at, bool put) override {
    require(at + t.bytes() <= size(), "outside of the depot");
    requests_.push_back({t, at, put});
    return requests_.size();
  }
  std::vector<std::byte> memory_;
  std::vector<Request> requests_;
  Ticket done_ = 0;
};

}  // namespace ft::test
