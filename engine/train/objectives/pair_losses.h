// DPO and its variants: the loss of one pair as a function of its answers' log-ratios to the reference. From
// TRL 1.16, DPOTrainer, with the names of the papers cited there.
#pragma once
#include "engine/train/objectives/dpo.h"

namespace ft {

// A pair's log-ratios log p - log p_ref (c: chosen, r: rejected), f of them with the slopes, and the answers'
// tokens.
struct PairScores {
  double c, r;
  double fc, fr, fc_slope, fr_slope;
  double c_tokens, r_tokens;
};

struct PairLoss {
  double loss, c_slope, r_slope;  // d loss / d c, d loss / d r
};

struct PairLossOptions {
  double beta, smoothing, tau;
};

// Value of f at a log-ratio, and its slope.
struct Mapped {
  double value, slope;
};
Mapped f_divergence(FDivergence, double alpha, double x);

// For all types that use one pair at a time: not aot, aot_unpaired and sft.
PairLoss pair_loss(DpoLoss, const PairScores&, const PairLossOptions&);

// Returns -(1 - e) log sigmoid(beta d) - e log sigmoid(-beta d), for aot and cpo, and its slope.
Mapped smoothed_loss(double d, const PairLossOptions&);

}  // namespace ft
