// The leaf kernels of one target, defined in several files; leaf.cpp puts them into the table.
#pragma once
#include "engine/cpu/kernels/leaf.h"

namespace ft::cpu::FT_TARGET {

void compute(const op::Fill&, Team&);
void compute(const op::Add&, Team&);
void compute(const op::Cast&, Team&);
void compute(const op::Multiply&, Team&);
void compute(const op::SoftCap&, Team&);
void compute(const op::Dropout&, Team&);
void compute(const op::Noise&, Team&);
void compute(const op::Gated&, Team&);
void compute(const op::GatedGrad&, Team&);
void compute(const op::GatedPairs&, Team&);
void compute(const op::GatedPairsGrad&, Team&);
void compute(const op::Hadamard&, Team&);
void compute(const op::ColumnSums&, Team&);
void compute(const op::RmsNorm&, Team&);
void compute(const op::RmsNormGrad&, Team&);
void compute(const op::LayerNorm&, Team&);
void compute(const op::LayerNormGrad&, Team&);
void compute(const op::Rope&, Team&);
void compute(const op::MergeAttention&, Team&);
void compute(const op::AttentionSinks&, Team&);
void compute(const op::AttentionSinksGrad&, Team&);
void compute(const op::EmbeddingGrad&, Team&);
void compute(const op::GatherColumns&, Team&);
void compute(const op::Magnitudes&, Team&);
void compute(const op::ScaleColumns&, Team&);
void compute(const op::ColumnDots&, Team&);
void compute(const op::LogitSums&, Team&);
void compute(const op::GatherSum&, Team&);
void compute(const op::RepeatRows&, Team&);
void compute(const op::RepeatRowsGrad&, Team&);
void compute(const op::FoldColumns&, Team&);
void compute(const op::FoldColumnsGrad&, Team&);
void compute(const op::Transpose&, Team&);
void compute(const op::Route&, Team&);
void compute(const op::RouteGrad&, Team&);
void compute(const op::GroupRows&, Team&);
void compute(const op::RouterBalance&, Team&);
void compute(const op::ScaleRows&, Team&);
void compute(const op::ScaleRowsGrad&, Team&);
void compute(const op::CausalConv&, Team&);
void compute(const op::CausalConvGrad&, Team&);
void compute(const op::DeltaGates&, Team&);
void compute(const op::DeltaGatesGrad&, Team&);
void compute(const op::DeltaRule&, Team&);
void compute(const op::DeltaRuleGrad&, Team&);
void compute(const op::CrossEntropy&, Team&);
void compute(const op::Divergence&, Team&);
void compute(const op::LogitStatistics&, Team&);
void compute(const op::Sum&, Team&);
void compute(const op::SumSquares&, Team&);
void compute(const op::AdamW&, Team&);
void compute(const op::Lion&, Team&);
void compute(const op::AdEMAMix&, Team&);
void compute(const op::Sgd&, Team&);
void compute(const op::Adagrad&, Team&);
void compute(const op::RmsProp&, Team&);
void compute(const op::FirstMoment&, Team&);
void compute(const op::PlainAdam&, Team&);
void compute(const op::Average&, Team&);
void compute(const op::EncodeSigns&, Team&);
void compute(const op::AddSigns&, Team&);
void compute(const op::EncodeBlocks&, Team&);
void compute(const op::DecodeBlocks&, Team&);
void compute(const op::FactoredMeans&, Team&);
void compute(const op::FactoredUpdate&, Team&);
void compute(const op::RootUpdate&, Team&);
void compute(const op::MuonMomentum&, Team&);
void compute(const op::Scale&, Team&);
void compute(const op::Descend&, Team&);

}  // namespace ft::cpu::FT_TARGET
