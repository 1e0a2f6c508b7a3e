// A picture of one number over the steps, for one run or several.
#pragma once
#include <string>
#include <vector>

#include "app/plot/svg.h"

namespace ft {

struct ChartSeries {
  std::string name;
  std::vector<svg::Point> line;  // step, value; values that are not finite are left out
  std::vector<svg::Point> pale;  // the same before it was smoothed
  std::vector<svg::Point> dots;
  std::size_t colour = 0;
};

// An <svg> of the classes c0, c1, ... (lines) and d0, d1, ... (dots). Empty where nothing is finite.
std::string chart_svg(const std::string& title, const std::vector<ChartSeries>& series, bool from_zero);

}  // namespace ft
