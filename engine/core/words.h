// Enums whose values have words in configurations, files and messages. The words are declared beside the
// enum:
//   enum class Backend : std::uint8_t { automatic, tcp, nccl };
//   constexpr auto words(Backend) {
//     using enum Backend;
//     return to_words<Backend>({{automatic, "auto"}, {tcp, "tcp"}, {tcp, "gloo"}, {nccl, "nccl"}});
//   }
// ft writes a value's first word and reads all of its words.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace ft {

template <class E>
struct Word {
  E value;
  const char* word;
};
template <class E, std::size_t N>
constexpr std::array<Word<E>, N> to_words(const Word<E> (&all)[N]) {
  return std::to_array(all);
}

template <class E>
concept Worded = std::is_enum_v<E> && requires(E e) {
  words(e)[0].word;
};

template <Worded E>
constexpr const char* name_of(E value) {
  for (const Word<E>& w : words(value))
    if (w.value == value) return w.word;
  return "";
}

// Returns the value that a word means; empty if it means none.
template <Worded E>
constexpr std::optional<E> value_of(std::string_view word) {
  for (const Word<E>& w : words(E{}))
    if (w.word == word) return w.value;
  return std::nullopt;
}

}  // namespace ft
