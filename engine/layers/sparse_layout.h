// The layouts of DeepSpeed's SparsityConfig classes (deepspeed/ops/sparse_attention/sparsity_config.py, up to
// 0.14; after Child et al. 2019, Zaheer et al. 2020 and Beltagy et al. 2020), bit for bit, but for the random
// blocks, which Python's generator chose there and the seed chooses here.
#pragma once
#include "engine/layers/config.h"
#include "engine/ops/block_layout.h"

namespace ft {

// UserError(Exit::config) for settings that contradict each other or do nothing in their mode.
void check_sparse_attention(const SparseAttentionConfig&);

// The layout of a mode other than dense, for a model that looks in this direction with so many query heads.
// Heads whose layouts are the same share one. UserError(Exit::config) as above, for the other direction, and
// for blocks that do not fit into max_seq_length.
BlockLayout make_layout(const SparseAttentionConfig&, AttentionDirection, std::int64_t heads);

}  // namespace ft
