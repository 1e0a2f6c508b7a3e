// ft merge with several adapters: --adapter A=0.7 --adapter B=0.3.
#pragma once
#include "app/models/merge.h"

namespace ft {

// Mixes the adapters into one and merges that.
Exit merge_mixed(const MergeArgs&);

// Whether they are more than one folder by itself.
bool is_mix(const MergeArgs&);

std::vector<std::string> combination_types();

}  // namespace ft
