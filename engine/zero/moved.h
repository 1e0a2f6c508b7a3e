// Counts of bytes copied between the memory that holds offloaded data and the memory that uses it.
#pragma once
#include <cstdint>

namespace ft {

// Bytes copied from and to files, and over the bus.
struct Moved {
  std::int64_t read = 0, written = 0;       // of files
  std::int64_t to_device = 0, to_host = 0;  // between host memory and a device with its own memory
  Moved operator+(const Moved& o) const {
    return {read + o.read, written + o.written, to_device + o.to_device, to_host + o.to_host};
  }
  Moved operator*(std::int64_t n) const { return {read * n, written * n, to_device * n, to_host * n}; }
  Moved operator-(const Moved& o) const { return *this + o * -1; }
  Moved operator/(std::int64_t n) const { return {read / n, written / n, to_device / n, to_host / n}; }
  bool operator==(const Moved&) const = default;
};

}  // namespace ft
