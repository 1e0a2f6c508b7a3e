// The layouts of DeepSpeed's SparsityConfig classes (deepspeed/ops/sparse_attention/sparsity_config.py, up to
// 0.14; after Child et al. 2019, Zaheer et al. 2020 and Beltagy et al. 2020), bit for bit. Only random blocks
// differ: Python's generator chooses them there, `seed` chooses them here.
#pragma once
#include "engine/layers/config.h"
#include "engine/ops/block_layout.h"

namespace ft {

// Throws UserError (config) if settings contradict each other or have no effect in their mode.
void check_sparse_attention(const SparseAttentionConfig&);

// The layout of a mode other than dense, for a model with this direction and number of query heads. Heads
// with the same layout share one. Throws UserError (config) as check_sparse_attention does, and if the
// configured direction is not the model's or the layout would take more than 1 GB.
BlockLayout make_layout(const SparseAttentionConfig&, AttentionDirection, std::int64_t heads);

}  // namespace ft
