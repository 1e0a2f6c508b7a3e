// A depot in host memory, for devices that share it: nothing is copied, and updates happen in place.
#pragma once
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "engine/zero/depot.h"

namespace ft {

class MemoryDepot final : public Depot {
 public:
  void open() override {
    const auto bytes = static_cast<std::size_t>(round_up(size() + 1, kBlock));
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kBlock, bytes)));
    if (!memory_) throw std::bad_alloc();
    std::memset(memory_.get(), 0, bytes);
  }
  void finish(Ticket) override {}
  std::byte* in_place(std::int64_t at) override { return memory_.get() + at; }
  Home home() const override { return Home::host; }

 private:
  Ticket start(Tensor tensor, std::int64_t at, bool put) override {
    require(tensor.dense() && 0 <= at && at + tensor.bytes() <= size(), "outside of the depot");
    std::byte* here = memory_.get() + at;
    std::memcpy(put ? here : tensor.data, put ? tensor.data : here, static_cast<std::size_t>(tensor.bytes()));
    return 0;
  }

  std::unique_ptr<std::byte, decltype(&std::free)> memory_{nullptr, std::free};
};

}  // namespace ft
