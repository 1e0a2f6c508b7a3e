#include "models/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ft {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// Returns llama3's frequency: long waves are stretched by the factor, short ones kept, those between are
// blended.
float llama3(const Rope& r, double inv) {
  const double wave = kTwoPi / inv;
  if (wave < r.original_max_position / r.high_freq_factor) return static_cast<float>(inv);
  if (wave > r.original_max_position / r.low_freq_factor) return static_cast<float>(inv / r.factor);
  const double smooth =
      (r.original_max_position / wave - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
  return static_cast<float>((1 - smooth) * inv / r.factor + smooth * inv);
}

// YaRN (Peng et al. 2023): a ramp over the dimensions, from those that turn often to those that hardly turn.
class Yarn {
 public:
  Yarn(const Rope& r, double dim) : factor_(r.factor) {
    auto dimension_of = [&](double turns) {
      return dim * std::log(r.original_max_position / (turns * kTwoPi)) / (2 * std::log(r.theta));
    };
    low_ = dimension_of(r.beta_fast);
    high_ = dimension_of(r.beta_slow);
    if (r.truncate) low_ = std::floor(low_), high_ = std::ceil(high_);
    low_ = std::max(low_, 0.0);
    high_ = std::min(high_, dim - 1);
    if (low_ == high_) high_ += 0.001;
  }
  float operator()(double inv, double i) const {
    const double ramp = std::clamp((i - low_) / (high_ - low_), 0.0, 1.0);
    return static_cast<float>(inv / factor_ * ramp + inv * (1 - ramp));
  }

 private:
  double factor_, low_ = 0, high_ = 0;
};

double yarn_mscale(double factor, double m) { return factor <= 1 ? 1 : 0.1 * m * std::log(factor) + 1; }

// Returns YaRN's factor on cos and sin, given or derived (Peng et al. 2023, eq. 22; DeepSeek's mscale
// variants).
double yarn_attention_factor(const JsonObject& j, double factor) {
  auto mscale = [&](double m) { return yarn_mscale(factor, m); };
  if (j.has("attention_factor")) return j.number("attention_factor");
  const double own = j.number_or("mscale", 0), all = j.number_or("mscale_all_dim", 0);
  return own != 0 && all != 0 ? mscale(own) / mscale(all) : mscale(1);
}

std::vector<double> read_factors(const JsonObject& j, const char* key, std::int64_t count) {
  std::vector<double> factors = j.numbers(key);
  if (static_cast<std::int64_t>(factors.size()) != count ||
      std::ranges::any_of(factors, [](double f) { return f <= 0; }))
    j.refuse(key, str("a list of ", count, " numbers above 0, one for each rotated pair"));
  return factors;
}

// Reads LongRoPE (Ding et al. 2024), with Phi-3's keys.
void read_longrope(Rope& r, const JsonObject& j) {
  r.type = Rope::Type::longrope;
  r.short_factors = read_factors(j, "short_factor", (r.head_dim + 1) / 2);
  r.long_factors = read_factors(j, "long_factor", (r.head_dim + 1) / 2);
  if (r.original_max_position == 0)
    r.original_max_position =
        j.positive_number_or("original_max_position_embeddings", static_cast<double>(r.max_position));
  r.factor = j.positive_number_or("factor", static_cast<double>(r.max_position) / r.original_max_position);
  r.attention_factor =
      r.factor <= 1 ? 1 : std::sqrt(1 + std::log(r.factor) / std::log(r.original_max_position));
  r.attention_factor = j.positive_number_or("attention_factor", r.attention_factor);
}

}  // namespace

double Rope::score_factor() const {
  const double m = mscale_all_dim == 0 ? 1 : yarn_mscale(factor, mscale_all_dim);
  return m * m;
}

void read_rope_scaling(Rope& r, const JsonObject& j) {
  const char* key = j.has("rope_type") ? "rope_type" : "type";
  const std::string type = j.text_or(key, "default");
  if (type == "default") return;
  r.mscale_all_dim = j.number_or("mscale_all_dim", 0);
  if (type == "longrope" || type == "su" || (type == "yarn" && j.has("long_factor")))
    return read_longrope(r, j);
  const bool yarn = type == "yarn";
  if (!yarn && type != "linear" && type != "dynamic" && type != "llama3")
    j.refuse(key, "one of default, linear, dynamic, llama3, yarn, longrope");
  if (r.original_max_position == 0)
    r.original_max_position =
        j.positive_number_or("original_max_position_embeddings", static_cast<double>(r.max_position));
  if (yarn && !j.has("factor"))
    r.factor = static_cast<double>(r.max_position) / r.original_max_position;
  else
    r.factor = j.number("factor");
  if (r.factor < 1) j.refuse("factor", "a number of at least 1");
  if (type == "linear") {
    r.type = Rope::Type::linear;
  } else if (type == "dynamic") {
    r.type = Rope::Type::dynamic;
  } else if (type == "llama3") {
    r.type = Rope::Type::llama3;
    r.low_freq_factor = j.number("low_freq_factor");
    r.high_freq_factor = j.number("high_freq_factor");
    if (r.low_freq_factor <= 0) j.refuse("low_freq_factor", "above 0");
    if (r.high_freq_factor <= r.low_freq_factor) j.refuse("high_freq_factor", "above low_freq_factor");
  } else {
    r.type = Rope::Type::yarn;
    r.beta_fast = j.positive_number_or("beta_fast", 32);
    r.beta_slow = j.positive_number_or("beta_slow", 1);
    r.truncate = j.boolean_or("truncate", true);
    r.attention_factor = yarn_attention_factor(j, r.factor);
  }
}

Rope read_rope(const JsonObject& j, std::int64_t head_dim, std::int64_t max_position,
               const RopeUsual& usual) {
  Rope r{.head_dim = head_dim, .max_position = max_position};
  r.theta = j.positive_number_or(usual.theta_key, usual.theta);
  double part = usual.parts ? j.positive_number_or(usual.part_key, usual.part) : 1;
  r.original_max_position =
      j.positive_number_or("original_max_position_embeddings", usual.original_max_position);
  const bool old =
      // transformers: the old key takes precedence
      j.has("rope_scaling") && !j.object("rope_scaling").keys().empty();
  const bool there = old || j.has("rope_parameters");
  const JsonObject p = there ? j.object(old ? "rope_scaling" : "rope_parameters") : j;
  if (there) {
    r.theta = p.positive_number_or("rope_theta", r.theta);
    part = p.positive_number_or("partial_rotary_factor", part);
  }
  if (part > 1 || (part < 1 && !usual.parts))
    (there ? p : j).refuse(there ? "partial_rotary_factor" : usual.part_key, usual.parts ? "at most 1" : "1");
  r.head_dim = static_cast<std::int64_t>(static_cast<double>(head_dim) * part);
  if (usual.odd ? r.head_dim < 1 : r.head_dim < 2 || r.head_dim % 2 != 0)
    j.refuse(usual.part_key, "a part of a head that is a whole number of pairs");
  if (there) read_rope_scaling(r, p);
  return r;
}

std::vector<float> inverse_frequencies(const Rope& r, std::int64_t length) {
  const auto dim = static_cast<double>(r.head_dim);
  double base = r.theta;
  if (r.type == Rope::Type::dynamic && length > r.max_position) {
    const double stretch = r.factor * static_cast<double>(length) / static_cast<double>(r.max_position);
    base *= std::pow(stretch - (r.factor - 1), dim / (dim - 2));
  }
  const Yarn yarn(r, dim);
  const bool beyond = static_cast<double>(length) > r.original_max_position;
  std::vector<float> out;
  for (std::int64_t i = 0; i < (r.head_dim + 1) / 2; ++i) {
    const float inv =
        1 / std::pow(static_cast<float>(base), static_cast<float>(2 * i) / static_cast<float>(dim));
    switch (r.type) {
      case Rope::Type::normal:
      case Rope::Type::dynamic:
        out.push_back(inv);
        break;
      case Rope::Type::linear:
        out.push_back(inv / static_cast<float>(r.factor));
        break;
      case Rope::Type::proportional:
        out.push_back(i < r.turning ? inv / static_cast<float>(r.factor) : 0);
        break;
      case Rope::Type::llama3:
        out.push_back(llama3(r, inv));
        break;
      case Rope::Type::yarn:
        out.push_back(yarn(inv, static_cast<double>(i)));
        break;
      case Rope::Type::longrope: {
        const auto factor = (beyond ? r.long_factors : r.short_factors)[static_cast<std::size_t>(i)];
        out.push_back(
            1 / (static_cast<float>(factor) *
                 std::pow(static_cast<float>(base), static_cast<float>(2 * i) / static_cast<float>(dim))));
        break;
      }
    }
  }
  return out;
}

Rotary make_rotary(const Rope& r) {
  if (r.type == Rope::Type::dynamic || r.type == Rope::Type::longrope)
    return Rotary([r](std::int64_t length) { return inverse_frequencies(r, length); }, r.attention_factor);
  return Rotary([fixed = inverse_frequencies(r, 0)](std::int64_t) { return fixed; }, r.attention_factor);
}

}  // namespace ft
