// Codes of frames, beside a published one.
#include "engine/crypto/frame_mac.h"

#include <gtest/gtest.h>

#include <vector>

namespace ft {
namespace {

FrameMac::Key key_of(int last) {
  FrameMac::Key key{};
  key.back() = std::byte(last);
  return key;
}

// "The Galois/Counter Mode of Operation" (McGrew, Viega), test case 1: everything is zero or empty.
TEST(FrameMac, GivesThePublishedCode) {
  constexpr std::array<unsigned char, 16> kCode{0x58, 0xe2, 0xfc, 0xce, 0xfa, 0x7e, 0x30, 0x61,
                                                0x36, 0x7f, 0x1d, 0x57, 0xa4, 0xe7, 0x45, 0x5a};
  const FrameMac::Tag tag = FrameMac(key_of(0)).tag(0, {});
  for (std::size_t i = 0; i < tag.size(); ++i) EXPECT_EQ(tag[i], std::byte(kCode[i])) << i;
}

TEST(FrameMac, DependsOnKeyNumberAndEveryBit) {
  std::vector<std::byte> frame(37, std::byte{5});
  FrameMac mac(key_of(1)), same(key_of(1)), other(key_of(2));
  const FrameMac::Tag tag = mac.tag(7, frame);
  EXPECT_TRUE(same_tag(tag, same.tag(7, frame)));
  EXPECT_TRUE(same_tag(tag, mac.tag(7, frame)));
  EXPECT_FALSE(same_tag(tag, other.tag(7, frame)));
  EXPECT_FALSE(same_tag(tag, mac.tag(8, frame)));
  EXPECT_FALSE(same_tag(tag, mac.tag(7 + (std::uint64_t{1} << 40), frame)));
  EXPECT_FALSE(same_tag(tag, mac.tag(7, std::span(frame).first(36))));
  for (std::size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    frame[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(same_tag(tag, mac.tag(7, frame))) << bit;
    frame[bit / 8] ^= std::byte(1 << bit % 8);
  }
}

}  // namespace
}  // namespace ft
