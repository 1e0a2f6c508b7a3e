// Draws a loss curve as a few lines of text: the mean of the steps in each column, as braille dots, two to a
// column and four to a line, or as asterisks without UTF-8. The scale is on the left.
//   1.412 ⠓⢄
//         ⠀⠀⠑⠢⠤⣀
//   0.644 ⠀⠀⠀⠀⠀⠀⠉⠒⠤⠤⠤
#pragma once
#include <string>
#include <vector>

namespace ft {

// Returns `height` lines of at most `width` columns; none if the screen is too small or fewer than two values
// are finite.
std::vector<std::string> loss_curve(const std::vector<double>& losses, int width, int height, bool utf8);

}  // namespace ft
