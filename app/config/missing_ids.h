// model.download: fetches the models, tokenizers and data sets that a run names by ids.
#pragma once
#include "app/config/config.h"

namespace ft {

// Fetches the ids that the hub's cache does not have. Names of files and folders are left alone. Throws
// UserError like hub::pull.
void fetch_missing_ids(const RunConfig& config);

}  // namespace ft
