// Sentences about what became of rows: notes of a run, and the error where nothing can be trained.
#pragma once
#include <string>
#include <vector>

#include "data/batches/load.h"

namespace ft {

// The length settings that samples must not exceed, with their values.
std::string lengths_allowed(const DataConfig&, bool seq2seq);

// Throws a UserError (exit 3) if the data have nothing to train on. It names the dataset `first`.
void require_usable(const Dataset&, const LoadCounts&, const DataConfig&, const DatasetConfig& first);

// Returns one sentence for each note. `what`: training or evaluation.
std::vector<std::string> notes_of(const Dataset&, const LoadCounts&, const DataConfig&,
                                  const std::string& what);
// Returns the notes that need no complete pass of the data.
std::vector<std::string> notes_of_rows(const LoadCounts&);

}  // namespace ft
