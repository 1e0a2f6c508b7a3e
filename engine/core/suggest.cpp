#include "engine/core/suggest.h"

#include <algorithm>

namespace ft {

// Optimal string alignment: Levenshtein distance that counts a swap of neighbours as one error.
int typing_errors(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> d(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

std::string nearest(std::string_view name, const std::vector<std::string>& known) {
  if (name.empty() || name.size() > 100) return "";
  std::string best;
  int fewest = static_cast<int>(std::max<std::size_t>(1, (name.size() + 1) / 3)) + 1;
  for (const std::string& k : known) {
    const int errors = typing_errors(name, k);
    if (errors < fewest && errors < static_cast<int>(k.size())) fewest = errors, best = k;
  }
  return best;
}

}  // namespace ft
