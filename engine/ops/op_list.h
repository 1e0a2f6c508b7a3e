// Lists of operations, from which interfaces and tables are derived.
#pragma once
#include <concepts>
#include <type_traits>

namespace ft {

template <class... Op>
struct OpList {};

// InList<Op, List>::value: true if the list has the operation.
template <class Op, class List>
struct InList;
template <class Op, class... All>
struct InList<Op, OpList<All...>> : std::bool_constant<(std::same_as<Op, All> || ...)> {};

// A list with some of its operations removed.
template <class List, class Kept, class... Removed>
struct Remove;
template <class... Kept, class... Removed>
struct Remove<OpList<>, OpList<Kept...>, Removed...> {
  using type = OpList<Kept...>;
};
template <class First, class... Rest, class... Kept, class... Removed>
struct Remove<OpList<First, Rest...>, OpList<Kept...>, Removed...>
    : std::conditional_t<(std::same_as<First, Removed> || ...),
                         Remove<OpList<Rest...>, OpList<Kept...>, Removed...>,
                         Remove<OpList<Rest...>, OpList<Kept..., First>, Removed...>> {};
template <class List, class... Removed>
using Without = typename Remove<List, OpList<>, Removed...>::type;

// A function for each operation of a list; the operation's type selects it. Context: type of the second
// argument.
template <class Op, class Context>
struct OpFunction {
  void (*compute)(const Op&, Context&);
};
template <class List, class Context>
struct OpTable;
template <class... Op, class Context>
struct OpTable<OpList<Op...>, Context> : OpFunction<Op, Context>... {};

}  // namespace ft
