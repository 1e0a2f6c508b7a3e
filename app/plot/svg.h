// Elements of a drawing: round tick values, a scale from values to the page, text that is safe in XML, short
// paths.
#pragma once
#include <string>
#include <vector>

namespace ft::svg {

struct Point {
  double x, y;
};

// Returns round values 1, 2, 5 x 10^k in [low, high], at most `most` and at least one if low < high.
std::vector<double> ticks(double low, double high, int most);
// Returns the values 1, 2, 5 x 10^k in [low, high], thinned to at most `most`; for logarithmic axes, 0 < low
// < high.
std::vector<double> log_ticks(double low, double high, int most);

// Maps a value to its place on the page: `from` to `at_from`, `to` to `at_to`.
struct Scale {
  double from, to, at_from, at_to;
  bool logarithmic = false;
  double operator()(double value) const;
};

std::string escaped(const std::string& text);  // escapes & < > and quotes; control characters become spaces
std::string number(double x);                  // with at most one decimal: 12.5, 3
// Returns "M x y l dx dy ..." with one decimal; leaves out points that coincide.
std::string path(const std::vector<Point>& points);

// Return elements; `kind` is a CSS class.
std::string line(const char* kind, double x1, double y1, double x2, double y2);
std::string text(double x, double y, const std::string& words, const char* anchor = "start",
                 const char* kind = "");
std::string curve(const char* kind, const std::vector<Point>& points);

}  // namespace ft::svg
