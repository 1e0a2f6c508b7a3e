#include "data/batches/load_notes.h"

#include <algorithm>

#include "engine/core/error.h"

namespace ft {

void Places::add(std::string place) {
  if (++count <= kShown) shown.push_back(std::move(place));
}

void Places::add(const Places& other) {
  count += other.count;
  for (const std::string& place : other.shown)
    if (std::ssize(shown) < kShown) shown.push_back(place);
}

std::string Places::text() const {
  std::string list;
  for (const std::string& place : shown) list += (list.empty() ? "" : "; ") + printable(place);
  return list + (count > std::ssize(shown) ? str("; and ", count - std::ssize(shown), " more") : "");
}

void LoadCounts::add(const TrainedTurns& sample, const std::string& place) {
  turns += sample.turns;
  closed += sample.closed;
  for (const std::int32_t message : sample.lost) lost.add(str(place, ": message ", message));
  for (const std::int32_t message : sample.unopened) unopened.add(str(place, ": message ", message));
}

Written LoadCounts::usual() const {
  for (const Written w : {Written::chat, Written::plain, Written::alpaca})
    if (written[static_cast<std::size_t>(w)] > 0) return w;
  return Written::unknown;
}

void LoadCounts::add(const LoadCounts& other) {
  for (std::size_t i = 0; i < written.size(); ++i) written[i] += other.written[i];
  rows += other.rows;
  truncated += other.truncated;
  dropped += other.dropped;
  turns += other.turns;
  closed += other.closed;
  lost.add(other.lost);
  unopened.add(other.unopened);
  begun_twice.add(other.begun_twice);
  untrained.add(other.untrained);
  for (const auto& [dataset, names] : other.unused) {
    auto& own = unused[dataset];
    for (const std::string& name : names)
      if (std::find(own.begin(), own.end(), name) == own.end()) own.push_back(name);
  }
}

std::string lengths_allowed(const DataConfig& c, bool seq2seq) {
  if (!seq2seq) return str("data.max_seq_length (", c.max_seq_length, ")");
  return str("data.max_source_length (", c.max_source_length, ") or data.max_target_length (",
             c.max_target_length, ")");
}

void require_usable(const Dataset& data, const LoadCounts& counts, const DataConfig& config,
                    const DatasetConfig& first) {
  const bool prompts = data.kind() == RowKind::prompt;
  const std::string path = printable(first.path), allowed = lengths_allowed(config, data.seq2seq());
  if (data.size() == 0 && counts.dropped < counts.rows)
    throw UserError(Exit::input, str(path, ": none of the ", counts.rows,
                                     " rows is left: data.datasets[].weight and data.val_set_size take all"));
  if (data.size() == 0 && prompts)
    throw UserError(Exit::input, str(path, ": all ", counts.rows, " prompts leave less room in ", allowed,
                                     " than objective.max_completion_length"));
  if (data.size() == 0)
    throw UserError(Exit::input, str(path, ": all ", counts.rows, " samples are longer than ", allowed,
                                     ", and data.truncation is drop"));
  if (data.targets() > 0 || prompts) return;
  const std::string row = counts.untrained.shown.empty() ? "" : ": " + counts.untrained.shown.front();
  throw UserError(Exit::input, str(path, ": nothing to train on in all ", counts.rows, " rows", row));
}

std::vector<std::string> notes_of_rows(const LoadCounts& counts) {
  std::vector<std::string> notes;
  for (const auto& [dataset, names] : counts.unused) {
    std::string list;
    for (const std::string& name : names) list += str(list.empty() ? "" : ", ", printable(name, 40));
    notes.push_back(str(printable(dataset), ": not used: ", list,
                        " (docs/data.md lists the columns of each data.datasets[].type)"));
  }
  if (counts.begun_twice.count > 0)
    notes.push_back(str(counts.begun_twice.shown.front(),
                        ", which the tokenizer puts first too: it is there twice (", counts.begun_twice.count,
                        " of ", counts.rows, " rows); take it out of the texts"));
  return notes;
}

std::vector<std::string> notes_of(const Dataset& data, const LoadCounts& counts, const DataConfig& config,
                                  const std::string& what) {
  std::vector<std::string> notes = notes_of_rows(counts);
  const bool prompts = data.kind() == RowKind::prompt;
  const std::string allowed = lengths_allowed(config, data.seq2seq());
  if (counts.truncated > 0)
    notes.push_back(str(counts.truncated, " of ", counts.rows, " ", what, " samples are longer than ",
                        allowed, " and were cut"));
  if (counts.dropped > 0)
    notes.push_back(str(counts.dropped, " of ", counts.rows, " ", what,
                        prompts ? " prompts leave no room for an answer in " : " samples are longer than ",
                        allowed, " and were dropped"));
  if (counts.lost.count > 0)
    notes.push_back(
        str("not trained, because the chat template writes them in another way when more messages ",
            "follow, or not at all (", counts.lost.count, " of ", counts.turns + counts.lost.count,
            " turns): ", counts.lost.text()));
  if (counts.unopened.count > 0)
    notes.push_back(
        str("the chat template's generation prompt is not the beginning of ", counts.unopened.count, " of ",
            counts.turns,
            " answers; they are trained from the first token that differs: ", counts.unopened.text()));
  if (counts.turns > 0 && counts.closed == 0 && config.train_on_eos != TrainOnEos::none)
    notes.push_back(str("the chat template trains no token that ends a turn (", what,
                        " data): the model will not learn where to stop"));
  if (data.untrained() > 0 && !prompts)
    notes.push_back(str(data.untrained(), " ", what, " samples have no tokens to train on",
                        counts.untrained.shown.empty() ? "" : ": " + counts.untrained.text()));
  return notes;
}

}  // namespace ft
