// The meaning of a dataset's rows: each format turns a row of JSON into a Sample. It is described in its own
// file (row_format.h) and stands in row_formats.h.
#pragma once
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
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

// The names of a row's fields, asked for by the names that formats use: dataset.columns may rename them.
class RowNames {
 public:
  RowNames(const FormatContext& context, std::span<const std::string> names)
      : context_(context), names_(names) {}
  bool has(const char* name) const;
  bool any(std::initializer_list<const char*> names) const;
  bool wanted(RowKind kind) const { return context_.rows.kind == kind; }  // by the run's objective

 private:
  const FormatContext& context_;
  std::span<const std::string> names_;
};

// RowFormat::make for a class that is constructed of a context, or of a context and names.
template <class F>
std::unique_ptr<Format> make_as(const FormatContext& context, std::span<const std::string> names) {
  if constexpr (std::is_constructible_v<F, const FormatContext&, std::span<const std::string>>)
    return std::make_unique<F>(context, names);
  else
    return std::make_unique<F>(context);
}

// Answers to compare, as texts or conversations: a pair's, or one with a label.
std::unique_ptr<Format> make_answers_format(const FormatContext& context, std::span<const std::string> names);

// The file's name for our `name`: what `columns` says, else our name.
std::string column(const DatasetConfig& dataset, const std::string& name);

}  // namespace ft
