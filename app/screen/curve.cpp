#include "app/screen/curve.h"

#include <algorithm>
#include <cmath>

#include "app/screen/format.h"

namespace ft {
namespace {

constexpr int kLeastWidth = 20, kLeastHeight = 3;

// Dots of a character, across and down.
struct Grid {
  int across, down;
};

// Returns the means of the finite values in each of `columns` columns. If there are fewer values, each has a
// column.
std::vector<double> means(const std::vector<double>& values, int columns) {
  const std::size_t n = values.size(), count = std::min(n, static_cast<std::size_t>(columns));
  std::vector<double> out;
  for (std::size_t c = 0; c < count; ++c) {
    double sum = 0;
    int finite = 0;
    for (std::size_t i = c * n / count; i < (c + 1) * n / count; ++i)
      if (std::isfinite(values[i])) {
        sum += values[i];
        ++finite;
      }
    if (finite > 0) out.push_back(sum / finite);
  }
  return out;
}

// Returns dots[y][x], y from the top, with neighbouring columns joined.
std::vector<std::vector<bool>> dots(const std::vector<double>& values, double low, double high, int height) {
  std::vector<std::vector<bool>> out(static_cast<std::size_t>(height), std::vector<bool>(values.size()));
  const auto row = [&](double v) {
    const double part = high > low ? (high - v) / (high - low) : 0.5;
    return std::clamp(static_cast<int>(std::lround(part * (height - 1))), 0, height - 1);
  };
  for (std::size_t x = 0; x < values.size(); ++x) {
    const int to = row(values[x]), from = x == 0 ? to : row(values[x - 1]);
    const int step = from < to ? 1 : -1;
    out[static_cast<std::size_t>(to)][x] = true;
    for (int y = from + step; x > 0 && from != to && y != to; y += step)
      out[static_cast<std::size_t>(y)][x] = true;
  }
  return out;
}

// Returns U+2800 with these dots in UTF-8.
std::string braille(unsigned bits) {
  return {'\xE2', static_cast<char>(0xA0 + (bits >> 6)), static_cast<char>(0x80 + (bits & 0x3F))};
}

// Unicode's bits of the dots of a braille character, line by line.
constexpr unsigned kBraille[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};

}  // namespace

std::vector<std::string> loss_curve(const std::vector<double>& losses, int width, int height, bool utf8) {
  const Grid grid = utf8 ? Grid{2, 4} : Grid{1, 1};
  std::vector<double> finite;
  for (const double v : losses)
    if (std::isfinite(v)) finite.push_back(v);
  if (finite.size() < 2 || width < kLeastWidth || height < kLeastHeight) return {};
  const auto [least, most] = std::minmax_element(finite.begin(), finite.end());
  const int label = static_cast<int>(std::max(show::loss(*least).size(), show::loss(*most).size())) + 1;
  const std::vector<double> columns = means(losses, (width - label) * grid.across);
  const auto [low, high] = std::minmax_element(columns.begin(), columns.end());
  const auto drawn = dots(columns, *low, *high, height * grid.down);
  std::vector<std::string> lines;
  for (int line = 0; line < height; ++line) {
    std::string text = line == 0 ? show::loss(*high) : line == height - 1 ? show::loss(*low) : "";
    text.insert(
        0, static_cast<std::size_t>(label - 1) - std::min(text.size(), static_cast<std::size_t>(label - 1)),
        ' ');
    text += ' ';
    for (std::size_t x = 0; x < columns.size(); x += static_cast<std::size_t>(grid.across)) {
      unsigned bits = 0;
      for (int dy = 0; dy < grid.down; ++dy)
        for (int dx = 0; dx < grid.across && x + static_cast<std::size_t>(dx) < columns.size(); ++dx)
          if (drawn[static_cast<std::size_t>(line * grid.down + dy)][x + static_cast<std::size_t>(dx)])
            bits |= kBraille[dy][dx];
      text += utf8 ? braille(bits) : bits > 0 ? "*" : " ";
    }
    lines.push_back(std::move(text));
  }
  return lines;
}

}  // namespace ft
