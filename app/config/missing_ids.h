// model.download: fetches the models, tokenizers and data sets that a run names by ids.
#pragma once
#include <string>
#include <vector>

#include "app/config/config.h"

namespace ft {

// Fetches the ids that the hub's cache does not have, or has without weights: a tokenizer's files may be
// there alone. Names of files and folders are left alone. Returns true if it fetched something. Throws
// UserError like hub::pull.
bool fetch_missing_ids(const RunConfig& config);

// Returns the ids that fetch_missing_ids() would fetch. Leaves out names that are like a path here: these are
// mistyped rather than missing.
std::vector<std::string> missing_ids(const RunConfig& config);

}  // namespace ft
