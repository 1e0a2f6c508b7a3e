// Reads the datasets of a configuration into memory as token ids, and holds some out for evaluation.
#pragma once
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "data/config.h"
#include "data/rows/dataset.h"
#include "data/rows/seq2seq.h"
#include "data/tokenizers/tokenizer.h"

namespace ft {

// Called now and then with the bytes read so far and all there are.
using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

struct LoadContext {
  std::filesystem::path base;   // relative paths are relative to it: the configuration's folder
  std::int64_t vocab_size = 0;  // of the model: every id is below it
  // Asked for when a dataset holds text; throws a UserError when the model has no tokenizer.
  std::function<const Tokenizer&()> tokenizer;
  LoadProgress progress{};
  std::filesystem::path tokenizer_path{};  // its path, which also locates the model's chat_template
  std::optional<Seq2Seq> seq2seq{};        // the model is an encoder-decoder
  std::filesystem::path hub{};             // the hub's cache, where datasets named by their ids are
  WantedRows rows{};
};

// Places in the data; notes show the first ones.
struct Places {
  static constexpr std::int64_t kShown = 20;

  std::int64_t count = 0;
  std::vector<std::string> shown{};  // train.jsonl:18: message 2

  void add(std::string place);
  void add(const Places& other);
  std::string text() const;  // train.jsonl:18: message 2; train.jsonl:20: message 4
};

// What happened to rows on the way, for a line on the screen.
struct LoadCounts {
  std::int64_t rows = 0;       // read
  std::int64_t truncated = 0;  // cut to the lengths allowed
  std::int64_t dropped = 0;    // left out as longer than that
  // Wanted messages of conversations: found in the text, and found with the token that ends them.
  std::int64_t turns = 0, closed = 0;
  Places lost;         // messages that were not found
  Places unopened;     // messages that do not begin with the chat template's generation prompt
  Places begun_twice;  // texts with a token that the tokenizer puts first too
  Places untrained;    // rows without tokens to train on, with the reason
  std::map<std::string, std::vector<std::string>> unused{};  // by dataset: columns that are not read
  std::array<std::int64_t, 4> written{};                     // rows, by how they were written

  // How most prompts are to be written that are asked later: as conversations where there were some.
  Written usual() const;
  void add(const TrainedTurns& sample, const std::string& place);
  void add(const LoadCounts& other);
};

struct LoadedData {
  Dataset train;  // empty when only evaluation was asked for, or with data.streaming
  Dataset eval;   // eval_datasets, else what val_set_size holds out; may be empty
  LoadCounts train_counts, eval_counts;
  std::vector<std::string> notes;  // what the user should know, one sentence each
};

enum class LoadPart { train_and_eval, eval };

// Throws a UserError (exit 2) for settings that do not go together; reads nothing.
void check_data(const DataConfig& config, const LoadContext& context);

// `seed` decides what is held out when data.data_seed is null. Samples are in the order of the configuration
// and of the files. Throws a UserError: exit 2 for settings that do not go together or cannot be done yet,
// exit 3 naming file and line for what is wrong with a file.
LoadedData load_data(const DataConfig& config, std::uint64_t seed, const LoadContext& context,
                     LoadPart part = LoadPart::train_and_eval);

}  // namespace ft
