// The tensors that a block's forward keeps for its backward.
#pragma once
#include <cstdint>

namespace ft {

enum class Keep : std::uint8_t {
  nothing,  // only the result
  // everything except the MLP's tensors: they are the largest, and backward recomputes them piece by piece
  but_the_mlp,
  // everything except tensors that are cheap to recompute: results of norms and of the MLP's activation
  // function
  all,
  whole  // everything
};

}  // namespace ft
