// libFuzzer: any bytes as the messages between ft launch and its nodes, in pieces whose size the first byte
// gives. Frames that are read are encoded to the same bytes.
#include <algorithm>

#include "app/launch/frames.h"
#include "tests/fuzz/input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view all = ft::fuzz::text_of(data + 1, size - 1);
  const std::size_t piece = std::size_t{1} + data[0];
  ft::fuzz::read_within(size, [&] {
    ft::FrameReader reader;
    std::string encoded;
    for (std::size_t at = 0; at < all.size(); at += piece) {
      reader.add(all.substr(at, piece));
      while (const auto frame = reader.next()) encoded += ft::encode(*frame);
    }
    if (!all.starts_with(encoded)) std::abort();
  });
  ft::fuzz::read_within(size, [&] {
    ft::FrameReader reader;
    std::string before;
    for (std::size_t at = 0; at < all.size() && !reader.begun(before); at += piece)
      reader.add(all.substr(at, piece));
  });
  return 0;
}
