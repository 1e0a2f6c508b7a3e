// The course of a loss as a few lines of text: the mean of the steps in each column, in braille dots, two to
// a column and four to a line, or with asterisks where there is no UTF-8; the scale on the left.
//   1.412 ⠓⢄
//         ⠀⠀⠑⠢⠤⣀
//   0.644 ⠀⠀⠀⠀⠀⠀⠉⠒⠤⠤⠤
#pragma once
#include <string>
#include <vector>

namespace ft {

// `height` lines of at most `width` columns; none where there is no room, or fewer than two finite values.
std::vector<std::string> loss_curve(const std::vector<double>& losses, int width, int height, bool utf8);

}  // namespace ft
