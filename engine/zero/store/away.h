// Places of offloaded data.
#pragma once
#include <memory>

#include "engine/zero/depot.h"

namespace ft::zero {

// A piece of a depot.
struct Away {
  Depot* depot = nullptr;  // null: the data is on the device
  std::int64_t at = 0;     // offset in bytes
  explicit operator bool() const { return depot != nullptr; }
  static Away reserve(const std::shared_ptr<Depot>& in, std::int64_t bytes) {
    return {in.get(), in->reserve(bytes)};
  }
};

}  // namespace ft::zero
