// A picture of a number over the steps, for one or several runs.
#pragma once
#include <string>
#include <vector>

#include "app/plot/svg.h"

namespace ft {

struct ChartSeries {
  std::string name;
  std::vector<svg::Point> line;  // step and value; values that are not finite are left out
  std::vector<svg::Point> pale;  // the line before it was smoothed
  std::vector<svg::Point> dots;
  std::size_t colour = 0;
};

// Returns an <svg> with the classes c0, c1, ... (lines) and d0, d1, ... (dots). Empty if no value is finite.
std::string chart_svg(const std::string& title, const std::vector<ChartSeries>& series, bool from_zero);

}  // namespace ft
