#include "app/launch/frames.h"

#include <cstring>

#include "engine/core/error.h"

namespace ft {
namespace {

struct Head {  // as stored: both ends are little-endian (x86-64, AArch64)
  std::uint32_t kind = 0;
  std::int32_t number = 0;
  std::uint32_t bytes = 0;
};
constexpr std::uint32_t kMost = 4 << 20;  // bytes of a frame; a command line is shorter

}  // namespace

std::string encode(const Frame& f) {
  require(f.bytes.size() <= kMost, "a frame too long");
  const Head head{static_cast<std::uint32_t>(f.kind), f.number, static_cast<std::uint32_t>(f.bytes.size())};
  return std::string(reinterpret_cast<const char*>(&head), sizeof head) + f.bytes;
}

std::optional<Frame> FrameReader::next() {
  Head head;
  if (buffer_.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, buffer_.data(), sizeof head);
  if (head.kind < static_cast<std::uint32_t>(FrameKind::start) ||
      head.kind > static_cast<std::uint32_t>(FrameKind::fault) || head.bytes > kMost)
    throw UserError(Exit::mismatch, "unexpected data: not ft's protocol");
  if (buffer_.size() < sizeof head + head.bytes) return std::nullopt;
  Frame f{FrameKind{head.kind}, head.number, buffer_.substr(sizeof head, head.bytes)};
  buffer_.erase(0, sizeof head + head.bytes);
  return f;
}

bool FrameReader::begun(std::string& before) {
  const std::size_t at = buffer_.find(kNodeBegins);
  if (at == std::string::npos) {
    if (buffer_.size() > kMost) throw UserError(Exit::mismatch, "unexpected data: not ft's protocol");
    return false;
  }
  before = buffer_.substr(0, at);
  buffer_.erase(0, at + kNodeBegins.size());
  return true;
}

}  // namespace ft
