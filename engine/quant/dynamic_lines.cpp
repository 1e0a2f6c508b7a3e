#include "engine/quant/dynamic_lines.h"

#include <limits>

namespace ft {
namespace {

// The line changes every `step` powers of two, the last time at 2^-last, where 2^(e + m) is taken for 2^e (1
// + m). Both numbers are chosen so that at every change both lines are right: it lies between the bound of
// two neighbouring powers of ten and the next number of the upper one.
constexpr struct { double step, last; } kChanges[] = {{3.21, 3.34}, {3.09, 3.28}};

DynamicLines make_lines(bool has_signs) {
  DynamicLines l{};
  l.zero = has_signs ? 127 : 0;
  l.scale[0] = 1 / dynamic_bounds(has_signs)[std::size_t(l.zero)];
  l.start[0] = -0.5f;
  l.next.fill(std::numeric_limits<float>::infinity());
  double power = 1e-6, first = 1;
  for (std::size_t line = 1; line <= 7; ++line, power *= 10) {
    const double n = double((has_signs ? 1 : 2) << (line - 1));
    l.scale[line] = float(n / 0.9 / power);
    l.start[line] = float(first - n / 9 - 0.5);
    first += n;
    if (line < 7) l.next[line] = float(first);
  }
  l.scale[8] = l.scale[7];
  l.start[8] = l.start[7];
  const auto [step, last] = kChanges[has_signs];
  l.by_bits = float(1 / (step * 0x1p23));
  l.from_bits = float((last - 127) / step + 6.5);
  return l;
}

}  // namespace

const DynamicLines& dynamic_lines(bool has_signs) {
  static const DynamicLines lines[] = {make_lines(false), make_lines(true)};
  return lines[has_signs];
}

}  // namespace ft
