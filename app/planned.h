// What a configuration will take, found by running one step of it on memory that is only counted.
#pragma once
#include <optional>

#include "app/assembly.h"

namespace ft {

struct Planned {
  Plan plan;
  BatchShape largest;  // of the training micro-batches
};

// `data` null, or a `length` given: all sequences are that long (max_seq_length if not given), whatever the
// data. `workspace` is what the operations take for themselves (Ops::workspace).
Planned planned(const RunConfig&, const BuiltData* data, std::int64_t workspace,
                std::optional<std::int64_t> length = {});

// The longest max_seq_length, in steps of 64 tokens up to 128k, with which a run fits into `there` bytes a
// rank; 0: none does.
std::int64_t longest_that_fits(const RunConfig&, std::int64_t workspace, std::int64_t there);

}  // namespace ft
