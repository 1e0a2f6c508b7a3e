// Operations on numbered rows and elements: embeddings, and rows or elements that are taken from or put into
// a tensor. Their bytes() count only moved elements. Also the transpose, and sums of columns.
#pragma once
#include "engine/ops/roles.h"

namespace ft::op {

// y[i] = table[ids[i]], or 0 for a negative id, which belongs to another part of the table.
struct Embedding {
  static constexpr const char* kName = "embedding";
  Out y;
  In ids;    // (rows) i32
  In table;  // (V, C)

  void check() const;
  void check_indices() const;
  double bytes() const { return 2 * bytes_of(y) + bytes_of(ids); }
  void operands(auto&& visit) const {
    visit("y", y);
    visit("ids", ids);
    visit("table", table);
  }
};

// dtable[ids[i]] += dy[i]. Rows with equal ids are added in their order. Rows whose id is negative or
// `padding` are skipped.
struct EmbeddingGrad {
  static constexpr const char* kName = "embedding_grad";
  Acc dtable;  // (V, C) f32
  In ids;
  In dy;
  std::int32_t padding = -1;

  void check() const;
  void check_indices() const;
  double bytes() const { return 3 * bytes_of(dy) + bytes_of(ids); }
  void operands(auto&& visit) const {
    visit("dtable", dtable);
    visit("ids", ids);
    visit("dy", dy);
  }
};

// y[i] = x[rows[i]], of any type.
struct GatherRows {
  static constexpr const char* kName = "gather_rows";
  Out y;
  In x;
  In rows;  // i32

  void check() const;
  void check_indices() const;
  double bytes() const { return 2 * bytes_of(y) + bytes_of(rows); }
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("rows", rows);
  }
};

// y[rows[i]] = x[i], of any type; the other rows of y do not change.
struct ScatterRows {
  static constexpr const char* kName = "scatter_rows";
  Out y;
  In x;
  In rows;  // i32

  void check() const;
  void check_indices() const;
  double bytes() const { return 2 * bytes_of(x) + bytes_of(rows); }
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("rows", rows);
  }
};

// y[r, j] = x[r, columns[j]].
struct GatherColumns {
  static constexpr const char* kName = "gather_columns";
  Out y;
  In x;
  In columns;  // i32

  void check() const;
  void check_indices() const;
  double bytes() const { return 2 * bytes_of(y) + bytes_of(columns); }
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("columns", columns);
  }
};

// y[i] = c[i] + the sum over j of x[rows[i, j]], in f32, rounded once.
struct GatherSum {
  static constexpr const char* kName = "gather_sum";
  Out y;
  In x;
  In rows;  // (rows of y, k) i32
  In c = Tensor{};

  void check() const;
  void check_indices() const;
  double bytes() const {
    return bytes_of(y) + bytes_of(c) + bytes_of(rows) + bytes_of(y) * static_cast<double>(rows.cols());
  }
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("rows", rows);
    visit("c", c);
  }
};

// y[i] = x[i / n]: repeats each row of x n = rows of y / rows of x times.
struct RepeatRows {
  static constexpr const char* kName = "repeat_rows";
  Out y;
  In x;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// dx[i] = the sum of dy[n i], ..., dy[n i + n - 1], in f32, rounded once.
struct RepeatRowsGrad {
  static constexpr const char* kName = "repeat_rows_grad";
  Out dx;
  In dy;

  void check() const;
  void operands(auto&& visit) const {
    visit("dx", dx);
    visit("dy", dy);
  }
};

// Adds up columns with equal remainders: y[i, k] = the sum over the x[i, j] with (first + j) mod (columns of
// y) = k, in f32, in the order of j, rounded once; 0 if there is none. x may be the columns from `first` on
// of a larger tensor.
struct FoldColumns {
  static constexpr const char* kName = "fold_columns";
  Out y;
  In x;
  std::int64_t first = 0;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

// Adds the gradient of FoldColumns, which repeats its columns: dx[i, j] += dy[i, (first + j) mod (columns of
// dy)]. dx may be f32 while dy is not.
struct FoldColumnsGrad {
  static constexpr const char* kName = "fold_columns_grad";
  Acc dx;
  In dy;
  std::int64_t first = 0;

  void check() const;
  void operands(auto&& visit) const {
    visit("dx", dx);
    visit("dy", dy);
  }
};

// y[at[0, i], at[1, i]] = x[i], for places that differ; the other elements of y do not change.
struct ScatterElements {
  static constexpr const char* kName = "scatter_elements";
  InOut y;  // (m, n)
  In x;     // (count)
  In at;    // (2, count) i32: rows and columns

  void check() const;
  void check_indices() const;
  double bytes() const { return 2 * bytes_of(x) + bytes_of(at); }
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
    visit("at", at);
  }
};

// The gradient of ScatterElements: dx[i] += dy[at[0, i], at[1, i]].
struct ScatterElementsGrad {
  static constexpr const char* kName = "scatter_elements_grad";
  Acc dx;  // (count) f32
  In dy;   // (m, n) f32
  In at;   // (2, count) i32

  void check() const;
  void check_indices() const;
  double bytes() const { return 3 * bytes_of(dx) + bytes_of(at); }
  void operands(auto&& visit) const {
    visit("dx", dx);
    visit("dy", dy);
    visit("at", at);
  }
};

// y (n, m) = the transpose of x (m, n).
struct Transpose {
  static constexpr const char* kName = "transpose";
  Out y;
  In x;

  void check() const;
  void operands(auto&& visit) const {
    visit("y", y);
    visit("x", x);
  }
};

}  // namespace ft::op
