// The list of all operations. The interface Ops, its checks, NullOps, TraceOps and the backends' tables are
// derived from it.
//
// Outputs come first; a gradient follows its function. An output that may be left out is not computed if its
// tensor is empty. Unless said otherwise, tensors are f32, bf16 or f16, all of one type in an operation,
// dense or with a stride. Sums are taken in f32, in an order that depends only on the shapes, never on the
// number of threads. Letters: rows = tokens, C width, H heads, D head width, F feed-forward, V vocabulary, R
// rank.
#pragma once
#include "engine/ops/attention.h"
#include "engine/ops/block_products.h"
#include "engine/ops/compressed.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/fake_quantize.h"
#include "engine/ops/loss.h"
#include "engine/ops/norms.h"
#include "engine/ops/op_list.h"
#include "engine/ops/optimizer.h"
#include "engine/ops/products.h"
#include "engine/ops/recurrent.h"
#include "engine/ops/rescale.h"
#include "engine/ops/routing.h"
#include "engine/ops/rows.h"
#include "engine/ops/whole_optimizer.h"

namespace ft {

using AllOps = OpList<op::Fill, op::Add, op::Cast, op::Multiply, op::SoftCap, op::Dropout,  // elementwise.h
                      op::Noise, op::Gated, op::GatedGrad, op::GatedPairs, op::GatedPairsGrad,  //
                      op::Products, op::NarrowGrad, op::ColumnSums,                             // products.h
                      op::RmsNorm, op::RmsNormGrad, op::LayerNorm, op::LayerNormGrad,           // norms.h
                      op::Rope, op::Attention, op::AttentionGrad, op::MergeAttention,           // attention.h
                      op::AttentionSinks, op::AttentionSinksGrad, op::AttentionRanges,          //
                      op::Embedding, op::EmbeddingGrad, op::GatherRows, op::ScatterRows,        // rows.h
                      op::GatherColumns,                                                        //
                      op::Magnitudes, op::ScaleColumns, op::ColumnDots,                         // rescale.h
                      op::GatherSum, op::Transpose,                                             //
                      op::Route, op::RouteGrad, op::GroupRows, op::RouterBalance,               // routing.h
                      op::ScaleRows, op::ScaleRowsGrad,                                         //
                      op::CausalConv, op::CausalConvGrad, op::DeltaGates,                       // recurrent.h
                      op::DeltaGatesGrad, op::DeltaRule, op::DeltaRuleGrad,                     //
                      op::LogitSums, op::CrossEntropy, op::Divergence,                          // loss.h
                      op::LogitStatistics,                                                      //
                      op::Sum, op::SumSquares, op::AdamW, op::Lion, op::AdEMAMix,               // optimizer.h
                      op::Sgd, op::Adagrad, op::RmsProp, op::FirstMoment, op::PlainAdam,        //
                      op::Average,                                                              //
                      op::EncodeSigns, op::AddSigns, op::EncodeBlocks, op::DecodeBlocks,  // compressed.h
                      op::FactoredMeans, op::FactoredUpdate, op::RootUpdate,              // whole_optimizer.h
                      op::MuonMomentum, op::Scale, op::Descend,                           //
                      op::RepeatRows, op::RepeatRowsGrad, op::FoldColumns,                // rows.h
                      op::FoldColumnsGrad, op::ScatterElements, op::ScatterElementsGrad,  //
                      op::Hadamard,                                                       // products.h
                      op::BlockProducts, op::BlockProductsGrad, op::SkewMatrices,         // block_products.h
                      op::SkewMatricesGrad,                                               //
                      op::FakeQuantize>;                                                  // fake_quantize.h

// Satisfied by the operations of the list.
template <class Op>
concept Operation = InList<Op, AllOps>::value;

}  // namespace ft
