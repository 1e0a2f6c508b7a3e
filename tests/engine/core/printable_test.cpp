// Texts from unknown sources, escaped so that they are safe to print.
#include <gtest/gtest.h>

#include "engine/core/error.h"
#include "engine/core/utf8.h"

namespace ft {
namespace {

TEST(Printable, EscapesControlCharactersAndInvalidUtf8) {
  EXPECT_EQ(printable("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(printable("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("caf\xe9!"), "caf\\xe9!");  // Latin-1
  EXPECT_EQ(printable("\xc3"), "\\xc3");          // cut off
  // overlong encoding, a surrogate
  EXPECT_EQ(printable("\xc0\xaf \xed\xa0\x80"), "\\xc0\\xaf \\xed\\xa0\\x80");
}

TEST(Printable, CutsNoCharacter) {
  EXPECT_EQ(printable("a\xe2\x82\xac", 3), "a...");
  EXPECT_EQ(printable("a\xe2\x82\xac", 4), "a\xe2\x82\xac");
  EXPECT_EQ(printable("\xff\xff\xff", 2), "\\xff\\xff...");
  EXPECT_EQ(utf8_beginning("\xf0\x9f\x98\x80x", 3), "");
  EXPECT_EQ(utf8_beginning("\xf0\x9f\x98\x80x", 4), "\xf0\x9f\x98\x80");
}

}  // namespace
}  // namespace ft
