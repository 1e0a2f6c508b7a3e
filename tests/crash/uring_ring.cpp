#include "tests/crash/uring_ring.h"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace ft::test {
namespace {

pid_t process_of(pid_t thread) {
  std::ifstream in("/proc/" + std::to_string(thread) + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("Tgid:")) return std::stoi(line.substr(5));
  return thread;
}

template <class T>
T value_at(pid_t thread, Argument address) {
  T value{};
  const std::string bytes = memory_at(thread, address, sizeof value);
  if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

std::string memory_at(pid_t thread, Argument address, std::size_t bytes) {
  const int memory = open(("/proc/" + std::to_string(thread) + "/mem").c_str(), O_RDONLY | O_CLOEXEC);
  std::string copy(bytes, '\0');
  const ssize_t n = pread(memory, copy.data(), bytes, static_cast<off_t>(address));
  close(memory);
  copy.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return copy;
}

Rings::Key Rings::key(pid_t thread, int file) { return {process_of(thread), file}; }

void Rings::set_up(pid_t thread, int file, Argument parameters) {
  const auto p = value_at<io_uring_params>(thread, parameters);
  Ring& ring = rings_[key(thread, file)] = {};
  ring.head = p.sq_off.head;
  ring.tail = p.sq_off.tail;
  ring.mask = p.sq_off.ring_mask;
  ring.array = p.sq_off.array;
  ring.direct = p.sq_off.array == 0;
}

void Rings::mapped(pid_t thread, int file, Argument offset, Argument address) {
  const auto ring = rings_.find(key(thread, file));
  if (ring == rings_.end()) return;
  if (offset == IORING_OFF_SQ_RING) ring->second.at = address;
  if (offset == IORING_OFF_SQES) ring->second.entries = address;
}

std::vector<Submission> Rings::submitted(pid_t thread, int file, std::uint32_t count) const {
  std::vector<Submission> all;
  const auto found = rings_.find(key(thread, file));
  if (found == rings_.end()) return all;
  const Ring& ring = found->second;
  const auto word = [&](std::uint32_t offset) { return value_at<std::uint32_t>(thread, ring.at + offset); };
  const std::uint32_t tail = word(ring.tail), mask = word(ring.mask);
  for (std::uint32_t head = word(ring.head); head != tail && all.size() < count; ++head) {
    const std::uint32_t slot = head & mask, entry = ring.direct ? slot : word(ring.array + 4 * slot);
    const auto e = value_at<io_uring_sqe>(thread, ring.entries + sizeof(io_uring_sqe) * entry);
    all.push_back({e.opcode, e.flags, e.fd, static_cast<std::int64_t>(e.off), e.addr, e.len});
  }
  return all;
}

}  // namespace ft::test
