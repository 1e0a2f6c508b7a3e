// The meaning of a dataset's rows: each format turns a row of JSON into a Sample. One file per format.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/config.h"
#include "data/files/row_reader.h"
#include "data/rows/dataset.h"
#include "data/tokenizers/tokenizer.h"

namespace ft {

struct FormatContext {
  const DataConfig& data;
  const DatasetConfig& dataset;
  std::string setting;          // data.datasets[0]
  std::int64_t vocab_size = 0;  // of the model: ids are below it
  // The model's tokenizer, asked for by formats of text only; throws a UserError when there is none.
  std::function<const Tokenizer&()> tokenizer;
  std::filesystem::path tokenizer_path;  // its path: a folder, or a file in it
  bool seq2seq = false;                  // samples are a source and a target
  WantedRows rows{};

  // The settings of chats that are given and that no other dataset's rows may use.
  std::vector<std::string_view> chat_settings() const;
};

class Format {
 public:
  virtual ~Format() = default;
  // Called from several threads. Throws a UserError that names the place.
  virtual Sample read(std::string_view row, const Place& at) const = 0;

  std::vector<std::string> columns;  // of the file: all that rows may be asked for
  std::string type;                  // as dataset.type names it
};

// The format that `dataset.type` names; with "auto" the one that the names of the first row show.
std::unique_ptr<Format> make_format(const FormatContext& context, std::span<const std::string> names,
                                    const Place& at);

std::unique_ptr<Format> make_tokenized_format(const FormatContext& context);
std::unique_ptr<Format> make_text_format(const FormatContext& context);
std::unique_ptr<Format> make_prompt_format(const FormatContext& context, std::span<const std::string> names,
                                           bool preferences);
std::unique_ptr<Format> make_chat_format(const FormatContext& context, bool sharegpt);
std::unique_ptr<Format> make_alpaca_format(const FormatContext& context);
std::unique_ptr<Format> make_translation_format(const FormatContext& context);
// Answers to compare: a pair's, or one with a label; as texts or conversations, and as tokens.
std::unique_ptr<Format> make_answers_format(const FormatContext& context, std::span<const std::string> names);
std::unique_ptr<Format> make_tokenized_answers_format(const FormatContext& context);
// Prompts that are to be answered, as texts, conversations or tokens; the whole row is kept.
std::unique_ptr<Format> make_prompts_format(const FormatContext& context, std::span<const std::string> names,
                                            bool tokenized);

// The file's name for our `name`: what `columns` says, else our name.
std::string column(const DatasetConfig& dataset, const std::string& name);

}  // namespace ft
