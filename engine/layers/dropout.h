// Dropout (Srivastava et al. 2014). The mask is a function of the micro-step and a name: backward recomputes
// it instead of keeping it.
#pragma once
#include <string_view>

#include "engine/ops/elementwise.h"
#include "engine/pass/context.h"

namespace ft {

struct Dropout {
  float p = 0;  // probability that an element becomes 0

  bool active(const Ctx& c) const { return c.train && p > 0; }
  Random mask(const Ctx& c, std::string_view name) const { return c.random.with(name).with("dropout"); }
  // Calls f(begin, end, drop) with ranges of a tensor's rows and their part of the mask; outside training
  // once with all rows and no mask. The tensor may be columns of one with `columns` columns, from
  // first_column on; columns 0: it has all of them.
  template <class F>
  void each_run(const Ctx& c, std::int64_t rows, std::string_view name, std::int64_t first_column,
                std::int64_t columns, F f) const {
    if (!active(c)) return f(std::int64_t{0}, rows, op::Drop{});
    const Random random = mask(c, name);
    c.numbers.each_run(rows, [&](std::int64_t begin, std::int64_t end, std::int64_t number) {
      f(begin, end, op::Drop{p, random, number, first_column, columns});
    });
  }
  // Drops elements of x out, or of its gradient, in place; nothing outside training.
  void apply(Ctx&, Tensor x, std::string_view name) const;
  // y = x + y after dropout.
  void add(Ctx&, Tensor y, Tensor x, std::string_view name) const;
};

}  // namespace ft
