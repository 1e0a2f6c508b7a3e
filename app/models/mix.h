// ft merge with several weighted adapters: --adapter A=0.7 --adapter B=0.3.
#pragma once
#include "app/models/merge.h"

namespace ft {

// Mixes the adapters into one and merges it into the base.
Exit merge_mixed(const MergeArgs&);

// False if `adapters` is a single folder without a weight or options of mixing.
bool is_mix(const MergeArgs&);

std::vector<std::string> combination_types();

}  // namespace ft
