// What a forward keeps for its backward.
#pragma once
#include <cstdint>

namespace ft {

enum class Keep : std::uint8_t {
  nothing,      // only the result is wanted
  but_the_mlp,  // all but what the MLP makes, which is most of it, and which it can make again piece by piece
  all,          // but what is cheap to make again: what norms and the MLP's activation function make
  whole         // everything
};

}  // namespace ft
