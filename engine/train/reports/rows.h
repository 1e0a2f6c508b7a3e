// Converts the rows of a report to JSON objects with Hugging Face Trainer's names, and back. log.jsonl holds
// one in each line, trainer_state.json holds them as log_history. Doubles keep all their digits; one that is
// not finite becomes null, because JSON has no such numbers.
#pragma once
#include <string_view>

#include "engine/files/json.h"
#include "engine/train/reports/report.h"

namespace ft {

Json row_json(const StepRow& row);
Json row_json(const EvalRow& row);
Json row_json(const Summary& summary);
Json memory_json(const MemoryReport& memory);

// Adds a row to the history. Returns false if it is not part of a history: a summary, or not a row.
bool add_row(const Json& row, History& history);
// Returns the step of a row; 0 if it has none.
std::int64_t step_of(const Json& row);

}  // namespace ft
