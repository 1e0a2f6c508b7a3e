#include "data/preference/batch.h"

#include <algorithm>
#include <limits>

#include "engine/core/error.h"

namespace ft {
namespace {

std::int32_t count(const std::vector<std::int32_t>& list) { return static_cast<std::int32_t>(list.size()); }

// Adds the tokens from `from` on; the earlier ones are in the batch already.
void add_tokens(Batch& b, std::span<const std::int32_t> ids, std::int32_t from) {
  b.input_ids.insert(b.input_ids.end(), ids.begin() + from, ids.end());
  for (std::int32_t t = from; t < std::ssize(ids); ++t) b.positions.push_back(t);
}

// Adds the targets of a decoder's sequence whose tokens begin at row `begin`.
void add_targets(Batch& b, const SampleStore::View& s, const AnswerTargets& of, bool prompt,
                 std::int32_t begin) {
  std::int32_t first = count(b.targets);
  if (of.padding) {
    b.target_rows.push_back(begin + static_cast<std::int32_t>(scored_row(s.input_ids, *of.padding)));
    b.targets.push_back(0);
  } else {
    bool answer = false;
    for (std::size_t t = 1; t < s.input_ids.size(); ++t) {
      const bool labelled = s.labels[t] != kIgnored;
      if (!labelled && !prompt) continue;
      if (labelled && !answer) first = count(b.targets);
      answer |= labelled;
      // The row before predicts this token.
      b.target_rows.push_back(begin + static_cast<std::int32_t>(t) - 1);
      b.targets.push_back(s.input_ids[t]);
    }
  }
  b.compared.first_answer.push_back(first);
  b.compared.first_target.push_back(count(b.targets));
}

void add_sequence(Batch& b, const SampleStore::View& s, const AnswerTargets& of, bool prompt) {
  add_targets(b, s, of, prompt, count(b.input_ids));
  add_tokens(b, s.input_ids, 0);
  b.starts.push_back(count(b.input_ids));
}

// Returns the number of prompt tokens that both answers share and that predict no target: all but the last.
std::int32_t shared_tokens(const SampleStore::View& chosen, const SampleStore::View& rejected,
                           const AnswerTargets& of) {
  const auto answer =
      std::find_if(chosen.labels.begin(), chosen.labels.end(), [](std::int32_t l) { return l != kIgnored; });
  std::int64_t shared = std::max<std::int64_t>(0, answer - chosen.labels.begin() - 1);
  if (of.padding)
    for (const auto& s : {chosen, rejected}) shared = std::min(shared, scored_row(s.input_ids, *of.padding));
  return static_cast<std::int32_t>(shared);
}

void add_whole(Batch& b, std::int32_t begin, std::int32_t shared, std::int32_t own, std::int32_t end) {
  for (std::int32_t row = begin; row < begin + shared; ++row) b.whole_rows.push_back(row);
  for (std::int32_t row = own; row < end; ++row) b.whole_rows.push_back(row);
  b.whole_starts.push_back(count(b.whole_rows));
}

// Adds the prompt, the chosen answer and the rejected answer.
void add_sharing(Batch& b, const SampleStore::View& chosen, const SampleStore::View& rejected,
                 const AnswerTargets& of) {
  if (b.whole_starts.empty()) b.whole_starts = {0};
  const std::int32_t begin = count(b.input_ids), shared = shared_tokens(chosen, rejected, of);
  add_targets(b, chosen, of, of.prompt, begin);
  add_tokens(b, chosen.input_ids, 0);
  add_whole(b, begin, 0, begin, count(b.input_ids));
  const std::int32_t own = count(b.input_ids);
  add_targets(b, rejected, of, false, own - shared);
  add_tokens(b, rejected.input_ids, shared);
  add_whole(b, begin, shared, own, count(b.input_ids));
  b.starts.push_back(count(b.input_ids));
}

// Adds log-probabilities for the last sequence; its answer's first token may not be a target.
void add_old(Batch& b, std::span<const float> logps) {
  const std::size_t from = b.compared.old.size();
  b.compared.old.resize(b.targets.size(), std::numeric_limits<float>::quiet_NaN());
  const std::size_t targets = b.targets.size() - from;
  if (logps.size() < targets) return;
  std::copy(logps.end() - static_cast<std::ptrdiff_t>(targets), logps.end(),
            b.compared.old.begin() + static_cast<std::ptrdiff_t>(from));
}

void add_one(Batch& b, const Dataset& data, const SampleStore::View& s, const AnswerTargets& of,
             const Seq2Seq& tokens, bool chosen) {
  if (!data.seq2seq()) return add_sequence(b, s, of, of.prompt && chosen);
  b.compared.first_answer.push_back(count(b.targets));
  add_pair(b, s, tokens);
  b.compared.first_target.push_back(count(b.targets));
}

// Returns the length of the longest prompt with the answer of the row before; the first row takes the last
// row's answer.
std::int64_t longest_mixed(std::span<const AnswerSizes* const> rows) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    most = std::max(most, rows[i]->prompt + rows[(i + rows.size() - 1) % rows.size()]->answer);
  return most;
}

}  // namespace

std::int64_t scored_row(std::span<const std::int32_t> ids, std::int32_t padding) {
  for (std::int64_t t = std::ssize(ids) - 1; t > 0; --t)
    if (ids[static_cast<std::size_t>(t)] != padding) return t;
  return 0;
}

void add_answers(Batch& b, const Dataset& data, std::int64_t sample, const AnswerTargets& of,
                 const Seq2Seq& tokens) {
  if (b.compared.first_target.empty()) b.compared.first_target = {0};
  if (b.starts.empty() && !data.seq2seq()) b.starts = {0};
  const bool pair = data.kind() == RowKind::pair;
  if (pair && of.share) {
    add_sharing(b, data[sample], data.rejected(sample), of);
  } else {
    add_one(b, data, data[sample], of, tokens, true);
    if (pair) add_one(b, data, data.rejected(sample), of, tokens, false);
  }
  if (data.kind() == RowKind::rollout) add_old(b, data.old_logps(sample));
  if (data.kind() == RowKind::labelled) {
    const auto tail = data.tail(sample);
    b.compared.tails.emplace_back(tail.begin(), tail.end());
  }
  b.compared.value.push_back(data.value(sample));
  b.compared.sample.push_back(sample);
}

void add_scored(Batch& b, std::span<const std::int32_t> ids, std::int32_t padding) {
  if (b.starts.empty()) b.starts = b.compared.first_target = {0};
  add_sequence(b, {ids, {}}, {.padding = padding}, false);
  b.compared.value.push_back(0);
}

void require_groups(const Dataset& data, std::int64_t group) {
  const auto prompt = [&](std::int64_t i) {
    const auto labels = data[i].labels;
    const auto answer =
        std::find_if(labels.begin(), labels.end(), [](std::int32_t l) { return l != kIgnored; });
    return data[i].input_ids.first(static_cast<std::size_t>(answer - labels.begin()));
  };
  for (std::int64_t i = 0; i < data.size(); ++i)
    if (!std::ranges::equal(prompt(i), prompt(i / group * group)))
      throw UserError(Exit::input,
                      str(data.source(i), ": the prompt is not that of its group, which begins at ",
                          data.source(i / group * group), "; ", group,
                          " rows in a row have one prompt (objective.num_generations)"));
}

AnswerSizes sizes_of(const Dataset& data, std::int64_t sample, const AnswerTargets& of,
                     const Seq2Seq& tokens) {
  Batch b;
  add_answers(b, data, sample, of, tokens);
  AnswerSizes sizes{.alone = shape_of(b)};
  if (of.mixed == 0) return sizes;
  const std::int32_t first = b.compared.first_answer.back(), end = b.starts.back();
  const std::int32_t begin =
      first < count(b.targets) ? b.target_rows[static_cast<std::size_t>(first)] + 1 : end;
  sizes.prompt = begin - b.starts[b.starts.size() - 2];
  sizes.answer = end - begin + (b.compared.tails.empty() ? 0 : std::ssize(b.compared.tails.back()));
  return sizes;
}

BatchShape shape_of(std::span<const AnswerSizes* const> rows, std::int64_t mixed) {
  BatchShape s;
  for (const AnswerSizes* of : rows) {
    const BatchShape& row = of->alone;
    s.tokens += row.tokens;
    s.targets += row.targets;
    s.sequences += row.sequences;
    s.source_tokens += row.source_tokens;
    s.compared += row.compared;
    s.whole += row.whole;
    s.longest = std::max(s.longest, row.longest);
    s.longest_source = std::max(s.longest_source, row.longest_source);
  }
  if (mixed > 0) s.longest = std::max(s.longest, std::min(mixed, longest_mixed(rows)));
  return s;
}

}  // namespace ft
