// Device memory. It is accessible only while queued work runs: a host that accesses it crashes at once. Every
// allocation is followed by guard bytes that must not change.
#pragma once
#include <cstddef>
#include <map>

namespace cuda_on_cpu {

class Memory {
 public:
  static constexpr std::size_t kSpace = std::size_t{1} << 36;  // bytes

  Memory();
  void* take(std::size_t bytes);  // null if no memory is left
  bool give_back(void* p);        // false if p was not allocated
  // Returns true if [p, p + bytes) is memory that was taken and not given back.
  bool holds(const void* p, std::size_t bytes) const;
  bool reserved(const void* p) const { return p >= base_ && p < base_ + kSpace; }
  void check_guards() const;  // throws Fault if guard bytes have changed

  // Makes device memory readable and writable during its lifetime.
  class Open {
   public:
    explicit Open(Memory&);
    ~Open();
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    Memory& memory_;
  };

 private:
  std::size_t pages() const { return (used_ + 4095) / 4096 * 4096; }
  std::byte* base_;
  std::size_t used_ = 0;
  std::map<std::byte*, std::size_t> live_;
};

Memory& memory();

}  // namespace cuda_on_cpu
