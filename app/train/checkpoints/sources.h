// Hashes the files that a run reads, so that a resumed run finds out if they have changed. Samples files of
// more than 64 MiB, so that a base of 7 B parameters takes only a moment.
#pragma once
#include "app/config/config.h"
#include "engine/train/checkpoint.h"

namespace ft {

// Returns a SHA-256 for each setting that names files: the base, the tokenizer, adapters, other models, data.
// Leaves out settings whose files cannot be read; the code that needs the files reports why.
FileHashes sources_of(const RunConfig&);

}  // namespace ft
