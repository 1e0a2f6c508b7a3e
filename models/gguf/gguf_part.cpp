#include "models/gguf/gguf_part.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft {

bool GgufPart::fits(const std::vector<std::int64_t>& shape) const {
  std::int64_t elements = 1;
  for (const std::int64_t d : shape) elements *= d;
  if (shape.empty() || elements == 0 || elements % (matrices * shape.back()) != 0) return false;
  const Size s = size_of(shape);
  if (form == Form::vectors && s.rows != 1) return false;
  return std::ranges::all_of(ranges, [&](const Range& r) {
    return r.count > 0 && r.first + (r.count - 1) * r.step < (columns ? s.columns : s.rows);
  });
}

GgufPart::Size GgufPart::size_of(const std::vector<std::int64_t>& shape) const {
  std::int64_t elements = 1;
  for (const std::int64_t d : shape) elements *= d;
  return {elements / (matrices * shape.back()), shape.back()};
}

std::vector<std::int64_t> GgufPart::shape_of(const std::vector<std::int64_t>& shape) const {
  const Size s = size_of(shape);
  std::int64_t count = 0;
  for (const Range& r : ranges) count += r.count;
  if (form == Form::vectors) return {matrices, count};
  require(form == Form::rows || ranges.size() == 1, "a part in matrices has one range");
  std::int64_t rows = columns ? s.rows : count, width = columns ? count : s.columns;
  if (turned) std::swap(rows, width);
  if (form == Form::rows) return {matrices * rows, width};
  return {matrices, rows, width};
}

void GgufPart::each(const Range& r, Size s, const auto& f) const {
  const std::int64_t rows = columns ? s.rows : r.count, width = columns ? r.count : s.columns;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < width; ++j) {
      const std::int64_t from =
          columns ? i * s.columns + r.first + j * r.step : (r.first + i * r.step) * s.columns + j;
      f(from, turned ? j * rows + i : i * width + j);
    }
}

void GgufPart::take(const Range& r, Size s, const float* matrix, float* part) const {
  each(r, s, [&](std::int64_t from, std::int64_t to) { part[to] = matrix[from]; });
}

void GgufPart::put(const Range& r, Size s, float* matrix, const float* part) const {
  each(r, s, [&](std::int64_t to, std::int64_t from) { matrix[to] = part[from]; });
}

std::int64_t GgufPart::place(std::size_t range, std::int64_t b, Size s) const {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < range; ++i) at += matrices * elements(ranges[i], s);
  return at + b * elements(ranges[range], s);
}

}  // namespace ft
