// A choice among descriptors, in place of an enum: a setting holds the descriptor that its word names.
//   struct OptimizerKind {
//     const char* name;                                     // the word that is read and written
//     std::array<const char*, 2> synonyms{};                // optional: words that are read too
//     static std::span<const OptimizerKind* const> all();   // the list
//   };
//   Chosen<OptimizerKind> optim = &kAdamW;
// Code asks the descriptor for a property (optim->betas), and compares descriptors only in rules about one.
#pragma once
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/core/words.h"

namespace ft {

template <class K>
class Chosen {
 public:
  using Kind = K;
  constexpr Chosen() = default;  // nothing is chosen yet
  constexpr Chosen(const Kind* kind) : kind_(kind) {}
  constexpr const Kind* operator->() const { return kind_; }
  constexpr const Kind& operator*() const { return *kind_; }
  constexpr explicit operator bool() const { return kind_ != nullptr; }
  constexpr bool operator==(const Chosen&) const = default;

 private:
  const Kind* kind_ = nullptr;
};

// Types whose values have words: enums with words, and Chosen descriptors.
template <class T>
concept HasWords = Worded<T> || std::is_same_v<T, Chosen<typename T::Kind>>;

// Returns the names in the order of the list, then the synonyms.
template <class Kind>
std::vector<Word<Chosen<Kind>>> words(Chosen<Kind>) {
  std::vector<Word<Chosen<Kind>>> all;
  for (const Kind* kind : Kind::all()) all.push_back({kind, kind->name});
  if constexpr (requires(const Kind& kind) { kind.synonyms; }) {
    for (const Kind* kind : Kind::all())
      for (const char* word : kind->synonyms)
        if (word) all.push_back({kind, word});
  }
  return all;
}

template <class Kind>
constexpr const char* name_of(Chosen<Kind> choice) {
  return choice ? choice->name : "";
}

// Returns the descriptor that a word names; empty: it names none.
template <HasWords C>
requires(!Worded<C>) std::optional<C> value_of(std::string_view word) {
  for (const Word<C>& w : words(C{}))
    if (w.word == word) return w.value;
  return std::nullopt;
}

}  // namespace ft
