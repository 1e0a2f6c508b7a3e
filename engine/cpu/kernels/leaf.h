// The kernels that are neither products nor attention: the table that every target fills. engine/ops
// describes each operation; shapes, types and indices have been checked. The order of sums depends only on
// the shapes.
#pragma once
#include "engine/cpu/team.h"
#include "engine/ops/all.h"
#include "engine/ops/view.h"

namespace ft::cpu {

// All operations except those that CpuOps computes itself, which include copies of rows as bytes.
using LeafOps = Without<AllOps, op::Products, op::NarrowGrad, op::Attention, op::AttentionGrad,
                        op::AttentionRanges, op::Embedding, op::GatherRows, op::ScatterRows>;
using LeafKernels = OpTable<LeafOps, Team>;

}  // namespace ft::cpu
