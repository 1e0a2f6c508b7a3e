// The contents of the files that a run reads, so that a run that goes on from a checkpoint knows when they
// have changed. A file of more than 64 MiB is sampled: a base of 7 B parameters takes a moment.
#pragma once
#include "app/config/config.h"
#include "engine/train/checkpoint.h"

namespace ft {

// A SHA-256 for each setting that names files: the base, the tokenizer, adapters, other models, data.
// Settings whose files cannot be read are left out; who needs the files says why.
FileHashes sources_of(const RunConfig&);

}  // namespace ft
