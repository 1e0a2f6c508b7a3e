#include "engine/train/objectives/pair_losses.h"

#include <cmath>
#include <numbers>

#include "engine/core/error.h"
#include "engine/train/objectives/judge.h"

namespace ft {
namespace {

// Returns a loss of z = beta d, with d = f(c) - f(r).
Mapped loss_of_difference(DpoLoss type, double z, double e, double tau) {
  const double p = sigmoid(z), q = sigmoid(-z), log_p = log_sigmoid(z), log_q = log_sigmoid(-z);
  switch (type) {
    case DpoLoss::hinge:
      return {std::max(0.0, 1 - z), z < 1 ? -1.0 : 0.0};
    case DpoLoss::robust:
      return {(-(1 - e) * log_p + e * log_q) / (1 - 2 * e), (-(1 - e) * q - e * p) / (1 - 2 * e)};
    case DpoLoss::exo_pair: {
      const double right = log_p - std::log1p(-e), wrong = log_q - std::log(e);
      return {p * right + q * wrong, p * q * (right - wrong)};
    }
    case DpoLoss::discopop: {
      const double m = sigmoid(z / tau), turn = m * (1 - m) / tau, falls = std::exp(-z);
      return {-(1 - m) * log_p + m * falls, turn * log_p - (1 - m) * q + turn * falls - m * falls};
    }
    default:  // sigmoid, sigmoid_norm
      return {-log_p, -q};
  }
}

// Returns a loss that is a sum of functions of each answer's log-ratio.
PairLoss loss_of_answers(DpoLoss type, double c, double r, double beta) {
  const double bc = beta * c, br = beta * r, pc = sigmoid(bc), pr = sigmoid(br), margin = 1 / (2 * beta);
  switch (type) {
    case DpoLoss::nca_pair:
      return {-log_sigmoid(bc) - 0.5 * log_sigmoid(-bc) - 0.5 * log_sigmoid(-br),
              beta * (-(1 - pc) + 0.5 * pc), 0.5 * beta * pr};
    case DpoLoss::bco_pair:
      return {-log_sigmoid(bc) - log_sigmoid(-br), -beta * (1 - pc), beta * pr};
    case DpoLoss::sppo_hard:
      return {(c - margin) * (c - margin) + (r + margin) * (r + margin), 2 * (c - margin), 2 * (r + margin)};
    case DpoLoss::apo_zero:
      return {1 - pc + pr, -beta * pc * (1 - pc), beta * pr * (1 - pr)};
    case DpoLoss::apo_down: {
      const double pd = sigmoid(bc - br), turn = beta * pd * (1 - pd);
      return {pc + 1 - pd, beta * pc * (1 - pc) - turn, turn};
    }
    default:
      throw InternalError("no loss of a pair");
  }
}

}  // namespace

Mapped f_divergence(FDivergence type, double alpha, double x) {
  constexpr double kLargest = 80;  // limit of the exponent, as in TRL
  switch (type) {
    case FDivergence::forward_kl:
      return {1 - std::exp(-x), std::exp(-x)};
    case FDivergence::js_divergence:
      return {std::numbers::ln2 + log_sigmoid(x), sigmoid(-x)};
    case FDivergence::alpha_divergence: {
      if (std::abs(alpha - 1) < 1e-6) return {x, 1};
      const double t = (alpha - 1) * x, power = std::exp(std::min(t, kLargest));
      return {(power - 1) / (alpha - 1), t < kLargest ? power : 0};
    }
    default:
      return {x, 1};
  }
}

PairLoss pair_loss(DpoLoss type, const PairScores& s, const PairLossOptions& o) {
  using enum DpoLoss;
  if (type == nca_pair || type == bco_pair || type == sppo_hard || type == apo_zero || type == apo_down)
    return loss_of_answers(type, s.c, s.r, o.beta);
  const bool mean = type == ipo || type == sigmoid_norm;
  const double nc = mean ? s.c_tokens : 1, nr = mean ? s.r_tokens : 1, d = s.fc / nc - s.fr / nr;
  Mapped m{};
  if (type == ipo) {
    const double off = d - 1 / (2 * o.beta);
    m = {off * off, 2 * off};
  } else {
    m = loss_of_difference(type, o.beta * d, o.smoothing, o.tau);
    m.slope *= o.beta;
  }
  return {m.value, m.slope * s.fc_slope / nc, -m.slope * s.fr_slope / nr};
}

Mapped smoothed_loss(double d, const PairLossOptions& o) {
  const double z = o.beta * d, e = o.smoothing;
  return {-(1 - e) * log_sigmoid(z) - e * log_sigmoid(-z),
          o.beta * (-(1 - e) * sigmoid(-z) + e * sigmoid(z))};
}

}  // namespace ft
