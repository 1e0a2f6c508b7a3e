// Dropout (Srivastava et al. 2014). The mask is a function of the micro-step and a name: backward recomputes
// it instead of keeping it.
#pragma once
#include <string_view>

#include "engine/nn/context.h"

namespace ft {

struct Dropout {
  float p = 0;  // probability that an element becomes 0

  bool active(const Ctx& c) const { return c.train && p > 0; }
  Random mask(const Ctx& c, std::string_view name) const { return c.random.with(name).with("dropout"); }
  // x, or with its gradient d, in place; nothing outside training. x may be columns of `columns`, from
  // first_column on; 0: it is all of them.
  void apply(Ctx&, Tensor x, std::string_view name, std::int64_t first_column = 0,
             std::int64_t columns = 0) const;
};

}  // namespace ft
