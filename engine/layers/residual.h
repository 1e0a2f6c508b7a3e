// A step of a residual stream, around attention or an MLP:
//   y = x + scale dropout(after(f(before(x)))),
//   or, with the norm after the sum, y = after(x + scale dropout(f(before(x)))).
// Absent parts cost nothing: without scale, dropout and `after`, f adds x itself.
#pragma once
#include <optional>
#include <string>

#include "engine/layers/dropout.h"
#include "engine/layers/norm.h"
#include "engine/layers/visitor.h"
#include "engine/ops/ops.h"
#include "engine/parallel/cut.h"
#include "engine/parallel/layer_rows.h"

namespace ft {

struct Residual {
  std::optional<Norm> before, after;
  bool after_sum = false;  // true: `after` norms the sum; false: only the part that is added
  float scale = 1;
  Dropout dropout;
  std::string name;  // name of the dropout mask

  struct Saved {
    Tensor before_statistics, after_statistics;
    Tensor n;  // (rows, C) result of `before`; empty: recomputed
    Tensor z;  // (rows, C) input of `after`
  };
  // keeps_input: keeps f's input for backward.
  Saved take(Ctx& c, std::int64_t rows, std::int64_t columns, bool keeps_input) const {
    Saved s;
    if (before) s.before_statistics = before->take_statistics(c.saved, rows);
    if (before && keeps_input) s.n = c.save(rows, columns);
    if (!after) return s;
    s.after_statistics = after->take_statistics(c.saved, rows);
    s.z = c.save(rows, columns);
    return s;
  }
  // True if backward needs a tensor that only the end of f computes.
  bool needs_result() const { return after.has_value(); }

  // Returns the layer's input: the norm of x, in s.n or else in n; or x itself without a norm.
  Tensor input(Ctx& c, Tensor n, Tensor x, const Saved& s) const {
    if (!before) return x;
    const Tensor to = s.n ? s.n : n;
    before->forward(c, to, s.before_statistics, x);
    return to;
  }
  // y = the step from x. layer(y, in, residual) computes y = residual + layer(in); the residual may be empty.
  // of: the layer's module. y empty: computes only the saved tensors.
  void forward(Ctx& c, Tensor y, Tensor x, Tensor in, const Saved& s, std::string_view of,
               const auto& layer) const {
    add(c, y, x, s, [&](Tensor to, Tensor residual) { layer_forward(c, of, to, in, residual, layer); });
  }
  struct Gradients {
    // d: in: the gradient of y; out: the gradient of x around the layer. through: += the gradient of x
    // through the layer; may be d; empty: not wanted.
    Tensor d, through;
    Tensor x;
    bool reads = true;  // the layer reads its input again
  };
  // layer(dx, dy, in) computes the gradient of its input, and adds to its parameters' gradients.
  void backward(Ctx& c, const Gradients& g, const Saved& s, std::string_view of, const auto& layer) const {
    Scope scratch(c.scratch);
    const std::int64_t rows = g.x.rows(), C = g.x.cols();
    const Tensor n = c.temporary(rows, C), dn = c.temporary(rows, C);
    const Tensor t = changes_gradient(c) ? c.temporary(rows, C) : Tensor{};
    const Tensor dy = result_back(c, g.d, t, s);
    const Tensor in = !g.reads ? Tensor{} : s.n ? s.n : input(c, n, g.x, s);
    const bool wanted = g.through || (before && before->trains());
    layer_backward(c, of, wanted ? dn : Tensor{}, dy, in, layer);
    if (wanted) input_back(c, g.through, dn, g.x, s);
  }

  void visit(Visitor& v, auto& layer) {
    if (before) before->visit(v);
    layer.visit(v);
    if (after) after->visit(v);
  }
  // Keeps only this rank's rows of the stream, if ranks shard them: a norm has weights for all rows, so its
  // gradients are summed over the ranks.
  void cut(TensorRank t) {
    if (!t.shards_rows) return;
    for (auto* norm : {&before, &after})
      if (*norm)
        for (Parameter* p : parameters_of(**norm)) p->summed = true;
  }

 private:
  // Runs f(y, residual), which computes y = residual + f(...).
  void add(Ctx& c, Tensor y, Tensor x, const Saved& s, const auto& f) const {
    const bool changes = scale != 1 || dropout.active(c);
    if (!after && !changes) return f(y, x);
    if (after && after_sum && !changes) {
      f(s.z, x);
    } else if (after && !after_sum) {
      f(s.z, {});
      norm_result(c, y, s);
      if (y) finish(c, y, x);
      return;
    } else {
      f(after ? s.z : y, {});
      finish(c, after ? s.z : y, x);
    }
    if (after) norm_result(c, y, s);
  }
  // Returns the gradient of f's result, in t or d itself. d becomes the gradient of x through the residual,
  // around f.
  Tensor result_back(Ctx& c, Tensor d, Tensor t, const Saved& s) const {
    if (after && after_sum) {
      c.ops.run(op::Fill{t, 0});
      after->backward(c, t, d, s.z, s.after_statistics);
      c.ops.run(op::Cast{.y = d, .x = t});
    }
    if (scale == 1 && !dropout.active(c) && (!after || after_sum)) return d;
    if (!after || after_sum) {
      c.ops.run(op::Multiply{.y = t, .x = d, .factor = scale});
      dropout.apply(c, t, name);
      return t;
    }
    Tensor own = d;
    Scope scratch(c.scratch);
    if (scale != 1 || dropout.active(c)) {
      own = c.temporary(d.rows(), d.cols());
      c.ops.run(op::Multiply{.y = own, .x = d, .factor = scale});
      dropout.apply(c, own, name);
    }
    c.ops.run(op::Fill{t, 0});
    after->backward(c, t, own, s.z, s.after_statistics);
    return t;
  }
  // True if backward needs memory for t.
  bool changes_gradient(const Ctx& c) const { return after || scale != 1 || dropout.active(c); }
  // d += the gradient of x through f; dn: gradient of f's input.
  void input_back(Ctx& c, Tensor d, Tensor dn, Tensor x, const Saved& s) const {
    if (before) return before->backward(c, d, dn, x, s.before_statistics);
    if (d) c.ops.run(op::Add{d, dn});
  }

  // Norms the result even if y is empty: backward needs the statistics.
  void norm_result(Ctx& c, Tensor y, const Saved& s) const {
    Scope scratch(c.scratch);
    if (!y) y = c.temporary(s.z.rows(), s.z.cols());
    after->forward(c, y, s.after_statistics, s.z);
  }
  // y = x + scale dropout(y).
  void finish(Ctx& c, Tensor y, Tensor x) const {
    if (scale == 1) return dropout.add(c, y, x, name);
    dropout.apply(c, y, name);
    c.ops.run(op::Multiply{.y = y, .x = y, .factor = scale});
    c.ops.run(op::Add{y, x});
  }
};

}  // namespace ft
