// Choices among descriptors: the words of a list, and their meaning.
#include "engine/core/chosen.h"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>

namespace ft {
namespace {

struct Fruit {
  const char* name;
  std::array<const char*, 2> synonyms{};
  static std::span<const Fruit* const> all();
};
const Fruit kApple{"apple", {"pomme"}}, kPear{"pear", {"poire", "birne"}};
constexpr std::array kFruits{&kPear, &kApple};
std::span<const Fruit* const> Fruit::all() { return kFruits; }

TEST(Chosen, HasNamesInTheOrderOfTheListAndThenSynonyms) {
  std::string all;
  for (const auto& [fruit, word] : words(Chosen<Fruit>{})) all += std::string(word) + "=" + fruit->name + " ";
  EXPECT_EQ(all, "pear=pear apple=apple poire=pear birne=pear pomme=apple ");
}

TEST(Chosen, IsReadByAnyWordAndWrittenByItsName) {
  EXPECT_EQ(value_of<Chosen<Fruit>>("birne"), Chosen<Fruit>(&kPear));
  EXPECT_EQ(value_of<Chosen<Fruit>>("plum"), std::nullopt);
  const Chosen<Fruit> fruit = &kApple;
  EXPECT_STREQ(name_of(fruit), "apple");
  EXPECT_FALSE(fruit == &kPear);
}

TEST(Chosen, MayBeNothing) { EXPECT_STREQ(name_of(Chosen<Fruit>{}), ""); }

}  // namespace
}  // namespace ft
