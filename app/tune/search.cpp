#include "app/tune/search.h"

#include <cmath>
#include <numeric>

namespace ft {
namespace {

constexpr double kCuriosity = 2;       // deviations by which a point may be faster than predicted
constexpr double kWorthwhile = 0.005;  // relative gain over the best time that is worth a trial

double hope_of(const CostModel::Guess& g) { return g.log_seconds - kCuriosity * g.deviation; }
double prior_of(const Traits& t) { return std::accumulate(t.costs.begin(), t.costs.end(), 0.0); }

}  // namespace

TuneSearch::TuneSearch(std::vector<Traits> points, std::size_t trials, bool every_one)
    : points_(std::move(points)), known_(points_.size()), most_(trials), every_one_(every_one) {}

void TuneSearch::tried(std::size_t point, double seconds, double noise) {
  known_[point] = {true, seconds, noise};
  ++tried_;
}

std::optional<CostModel> TuneSearch::model() const {
  std::vector<MeasuredCost> measured;
  for (std::size_t i = 0; i < points_.size(); ++i)
    if (known_[i].seconds > 0) measured.push_back({points_[i], known_[i].seconds, known_[i].noise});
  if (measured.empty()) return std::nullopt;
  return CostModel(std::move(measured));
}

std::optional<std::size_t> TuneSearch::next() const {
  if (tried_ >= most_) return std::nullopt;
  const std::optional<CostModel> costs = model();
  std::optional<std::size_t> chosen;
  double lowest = INFINITY;
  if (const auto fastest = best(); fastest && !every_one_)
    lowest = std::log(known_[*fastest].seconds) - kWorthwhile;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (known_[i].tried) continue;
    const double hope = costs ? hope_of(costs->guess(points_[i])) : prior_of(points_[i]);
    if (hope < lowest) lowest = hope, chosen = i;
  }
  return chosen;
}

std::optional<std::size_t> TuneSearch::best() const {
  std::optional<std::size_t> fastest;
  for (std::size_t i = 0; i < points_.size(); ++i)
    if (known_[i].seconds > 0 && (!fastest || known_[i].seconds < known_[*fastest].seconds)) fastest = i;
  return fastest;
}

std::vector<double> TuneSearch::seconds() const {
  const std::optional<CostModel> costs = model();
  std::vector<double> all;
  for (std::size_t i = 0; i < points_.size(); ++i) {
    const bool predicted = !known_[i].tried && costs;
    all.push_back(predicted               ? std::exp(costs->guess(points_[i]).log_seconds)
                  : known_[i].seconds > 0 ? known_[i].seconds
                                          : NAN);
  }
  return all;
}

}  // namespace ft
