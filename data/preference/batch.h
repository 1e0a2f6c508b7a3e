// Answers that are compared as sequences of a micro-batch: what is a target of each, see Compared.
#pragma once
#include <optional>

#include "data/rows/dataset.h"
#include "data/rows/seq2seq.h"
#include "engine/core/batch.h"

namespace ft {

struct AnswerTargets {
  bool share = false;   // a pair's prompt is there once: see Batch::whole_rows; decoders only
  bool prompt = false;  // the prompt before a chosen answer is predicted too
  // Reward models: the only target of a sequence is its last token that is not this one, whose state is
  // scored; the first token where all are.
  std::optional<std::int32_t> padding;
  // KTO: prompts meet other rows' answers, up to this many tokens; 0: they do not.
  std::int64_t mixed = 0;
};

// Adds a row: a pair's two sequences, or a labelled answer's one.
void add_answers(Batch&, const Dataset&, std::int64_t sample, const AnswerTargets&, const Seq2Seq&);

// A shape of pairs whose answers have nothing in common, which need the most memory.
inline void share_nothing(BatchShape& s) {
  s.whole = s.tokens;
  s.sequences = s.compared;
}

// Adds a sequence that is only scored.
void add_scored(Batch&, std::span<const std::int32_t> ids, std::int32_t padding);

// The row of a sequence whose state is scored: see AnswerTargets::padding.
std::int64_t scored_row(std::span<const std::int32_t> ids, std::int32_t padding);

// UserError (exit 3) where `group` rows in a row have not all one prompt.
void require_groups(const Dataset&, std::int64_t group);

// With answers that also follow the prompt of the row before, as far as `mixed` tokens; 0: they do not.
BatchShape shape_of(const Batch&, std::int64_t mixed);

}  // namespace ft
