// Everything that is neither a product nor attention: the table every target fills. engine/ops says what each
// operation computes; shapes, types and indices have been checked. Sums are taken in an order that depends on
// the shapes only.
#pragma once
#include "engine/cpu/team.h"
#include "engine/ops/all.h"
#include "engine/ops/view.h"

namespace ft::cpu {

// All operations but those that CpuOps computes itself: rows are copied as bytes.
using LeafOps = Without<AllOps, op::Products, op::NarrowGrad, op::Attention, op::AttentionGrad,
                        op::AttentionRanges, op::Embedding, op::GatherRows, op::ScatterRows>;
using LeafKernels = OpTable<LeafOps, Team>;

}  // namespace ft::cpu
