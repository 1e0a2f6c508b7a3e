// The rows of a report as JSON objects with Hugging Face Trainer's names, and back. log.jsonl holds them one
// a line, trainer_state.json as log_history. Doubles keep all their digits; one that is not finite is null,
// because JSON cannot say it.
#pragma once
#include <string_view>

#include "engine/files/json.h"
#include "engine/train/reports/report.h"

namespace ft {

Json row_json(const StepRow& row);
Json row_json(const EvalRow& row);
Json row_json(const Summary& summary);
Json memory_json(const MemoryReport& memory);

// Adds a row to the history. False when it is none of a history: a summary, or not a row at all.
bool add_row(const Json& row, History& history);
// The step a row belongs to; 0 when it names none.
std::int64_t step_of(const Json& row);

}  // namespace ft
