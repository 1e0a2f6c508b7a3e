// Maps two numbers to a value, fast: pairs that BPE merges, steps of a trie. It uses open addressing in one
// block of memory; it is filled once and then only read.
#pragma once
#include <cstdint>
#include <vector>

namespace ft {

template <class Value>
class PairMap {
 public:
  explicit PairMap(std::size_t expected = 0) { rehash(expected); }

  // Returns the value of (a, b), which is added if missing.
  Value& at(std::uint32_t a, std::uint32_t b) {
    if (2 * (count_ + 1) > slots_.size()) rehash(2 * (count_ + 1));
    Slot& slot = slots_[place(key(a, b))];
    if (slot.key == kFree) {
      slot.key = key(a, b);
      ++count_;
    }
    return slot.value;
  }
  const Value* find(std::uint32_t a, std::uint32_t b) const {
    const Slot& slot = slots_[place(key(a, b))];
    return slot.key == kFree ? nullptr : &slot.value;
  }

 private:
  static constexpr std::uint64_t kFree = ~std::uint64_t{0};  // no pair of ids has this key
  struct Slot {
    std::uint64_t key = kFree;
    Value value{};
  };

  static std::uint64_t key(std::uint32_t a, std::uint32_t b) { return std::uint64_t{a} << 32 | b; }
  // Returns the slot of a key, or the free slot where it would be.
  std::size_t place(std::uint64_t k) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t i = (k * 0x9E3779B97F4A7C15ull >> 32) & mask;
    while (slots_[i].key != kFree && slots_[i].key != k) i = (i + 1) & mask;
    return i;
  }
  void rehash(std::size_t expected) {
    std::size_t size = 16;
    while (size < 2 * expected) size *= 2;
    std::vector<Slot> old(size);
    old.swap(slots_);
    for (Slot& slot : old)
      if (slot.key != kFree) slots_[place(slot.key)] = std::move(slot);
  }

  std::vector<Slot> slots_;  // a power of two, at most half in use
  std::size_t count_ = 0;
};

}  // namespace ft
