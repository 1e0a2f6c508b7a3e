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

// Called repeatedly with the bytes read so far and the total.
using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

struct LoadContext {
  std::filesystem::path base;   // base of relative paths: the configuration's folder
  std::int64_t vocab_size = 0;  // the model's; every id is below it
  // Called if a dataset holds text. Throws UserError if the model has no tokenizer.
  std::function<const Tokenizer&()> tokenizer;
  LoadProgress progress{};
  // Path of the tokenizer, which also locates the model's chat_template.
  std::filesystem::path tokenizer_path{};
  std::optional<Seq2Seq> seq2seq{};  // the model is an encoder-decoder
  std::filesystem::path hub{};       // the hub's cache, for datasets named by their ids
  WantedRows rows{};
};

// Counts places in the data, and keeps the first ones for notes.
struct Places {
  static constexpr std::int64_t kShown = 20;

  std::int64_t count = 0;
  std::vector<std::string> shown{};  // such as train.jsonl:18: message 2

  void add(std::string place);
  void add(const Places& other);
  std::string text() const;  // such as train.jsonl:18: message 2; train.jsonl:20: message 4
};

// Counts what happened to rows while they were read, for notes on the screen.
struct LoadCounts {
  std::int64_t rows = 0;       // read
  std::int64_t truncated = 0;  // cut to the allowed lengths
  std::int64_t dropped = 0;    // skipped because they are too long
  // Wanted messages of conversations: found in the text, and found with the token that ends them.
  std::int64_t turns = 0, closed = 0;
  Places lost;         // messages that were not found
  Places unopened;     // messages without the chat template's generation prompt at the beginning
  Places begun_twice;  // texts with a token that the tokenizer also adds in front
  Places untrained;    // rows without tokens to train on, with the reason
  std::map<std::string, std::vector<std::string>> unused{};  // by dataset: columns that are not read
  std::array<std::int64_t, 4> written{};                     // rows, by form of their prompts

  // Returns the form for later prompts: chat if any row was a conversation, else plain, else alpaca.
  Written usual() const;
  void add(const TrainedTurns& sample, const std::string& place);
  void add(const LoadCounts& other);
};

struct LoadedData {
  Dataset train;  // empty if only evaluation is requested, or with data.streaming
  Dataset eval;   // eval_datasets, else the samples held out by val_set_size; may be empty
  // With data.streaming, train_counts holds the first row of each dataset.
  LoadCounts train_counts, eval_counts;
  std::vector<std::string> notes;  // facts that the user should know, one sentence each
};

enum class LoadPart { train_and_eval, eval };

// Throws UserError (config) for settings of the other kind of model; reads nothing.
void check_data(const DataConfig& config, const LoadContext& context);

// Reads the datasets. `seed` chooses the held-out samples if data.data_seed is null. Samples are in the order
// of the configuration and of the files. Throws UserError (config) for settings that exclude each other or
// are not supported yet, and UserError (input), with file and line, for mistakes in a file.
LoadedData load_data(const DataConfig& config, std::uint64_t seed, const LoadContext& context,
                     LoadPart part = LoadPart::train_and_eval);

}  // namespace ft
