// Hashes of bytes in pieces, compared with the output of sha256sum and git hash-object.
#include "engine/files/hash.h"

#include <gtest/gtest.h>

namespace ft {
namespace {

TEST(Hash, OfPiecesIsThatOfTheWhole) {
  Hasher hash;
  hash.add("ab");
  hash.add("");
  hash.add("c");
  EXPECT_EQ(hash.hex(), sha256("abc"));
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Hash, Sha1NamesAFileAsGitDoes) {
  Hasher hash(Hasher::Kind::sha1);
  hash.add(std::string("blob 3\0", 7));
  hash.add("{}\n");
  EXPECT_EQ(hash.hex(), "0967ef424bce6791893e9a57bb952f80fd536e93");
}

}  // namespace
}  // namespace ft
