// Sentences about rows that were cut or skipped: notes of a run, and the error if nothing can be trained.
#pragma once
#include <string>
#include <vector>

#include "data/batches/load.h"

namespace ft {

// Returns the length settings that samples must not exceed, with their values.
std::string lengths_allowed(const DataConfig&, bool seq2seq);

// Throws UserError (input), which names the dataset `first`, if the data have nothing to train on.
void require_usable(const Dataset&, const LoadCounts&, const DataConfig&, const DatasetConfig& first);

// Returns one sentence for each note. `what`: training or evaluation.
std::vector<std::string> notes_of(const Dataset&, const LoadCounts&, const DataConfig&,
                                  const std::string& what);
// Returns the notes that need no complete pass of the data.
std::vector<std::string> notes_of_rows(const LoadCounts&);

}  // namespace ft
