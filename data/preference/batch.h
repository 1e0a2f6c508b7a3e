// Adds answers that are compared to a micro-batch, as sequences; see Compared for their targets.
#pragma once
#include <optional>

#include "data/rows/dataset.h"
#include "data/rows/seq2seq.h"
#include "engine/core/batch.h"

namespace ft {

struct AnswerTargets {
  bool share = false;   // a pair's prompt is stored once, see Batch::whole_rows; decoders only
  bool prompt = false;  // the prompt before a chosen answer is predicted too
  // Reward models: the padding token. The only target of a sequence is its last other token, whose state is
  // scored; its first token if all are padding.
  std::optional<std::int32_t> padding;
  // KTO: prompts are also combined with other rows' answers, up to this many tokens; 0: not.
  std::int64_t mixed = 0;
};

// Adds a row: a pair's two sequences, or a labelled answer's one.
void add_answers(Batch&, const Dataset&, std::int64_t sample, const AnswerTargets&, const Seq2Seq&);

// Makes a shape of pairs whose answers share no prompt, which need the most memory.
inline void share_nothing(BatchShape& s) {
  s.whole = s.tokens;
  s.sequences = s.compared;
}

// Adds a sequence that is only scored.
void add_scored(Batch&, std::span<const std::int32_t> ids, std::int32_t padding);

// Returns the row of a sequence whose state is scored; see AnswerTargets::padding.
std::int64_t scored_row(std::span<const std::int32_t> ids, std::int32_t padding);

// Throws UserError (input) if `group` consecutive rows do not have the same prompt.
void require_groups(const Dataset&, std::int64_t group);

// The sizes of a row, which a batch's shape is made of.
struct AnswerSizes {
  BatchShape alone;         // the shape of a batch of this row
  std::int64_t prompt = 0;  // tokens of the last sequence before its answer
  std::int64_t answer = 0;  // tokens of that answer, with those that were cut from its end
};
AnswerSizes sizes_of(const Dataset&, std::int64_t sample, const AnswerTargets&, const Seq2Seq&);
// Returns the shape of a batch of these rows. mixed: see AnswerTargets.
BatchShape shape_of(std::span<const AnswerSizes* const> rows, std::int64_t mixed);

}  // namespace ft
