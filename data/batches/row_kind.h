// Finds the kind of a dataset's rows, from which an objective can be chosen.
#pragma once
#include "data/config.h"
#include "data/files/files.h"
#include "data/rows/dataset.h"

namespace ft {

// Returns the kind of the rows: by dataset.type, or by the names in the first row. Answers to compare come
// before examples, and examples before prompts alone. Rows of no known format count as examples, so that
// reading them names the fault. `setting` names the dataset in errors. Throws UserError (input) if there are
// no files, or the first row cannot be read.
RowKind kind_of_rows(const DataConfig&, const DatasetConfig& dataset, const DataPlaces&,
                     const std::string& setting);

}  // namespace ft
