// Reads the rows of one dataset as samples, file after file, a window at a time. Several threads turn rows
// into tokens. Samples that are too long are cut or skipped.
#pragma once
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batches/load.h"
#include "data/files/files.h"
#include "data/files/row_reader.h"
#include "data/rows/dataset.h"
#include "data/rows/format.h"

namespace ft {

class SampleReader {
 public:
  // `setting` names the dataset in errors: data.datasets[0]. Config and context must outlive the reader.
  SampleReader(const DataConfig& config, const DatasetConfig& dataset, const LoadContext& context,
               const std::string& setting);

  struct Read {
    Sample sample;
    std::int64_t line;  // of the file
  };
  // Consecutive samples of one file.
  struct Window {
    const std::string* file = nullptr;  // as the user wrote it; lives as long as the reader
    std::vector<Read> samples;          // fewer than the rows read if some are skipped; may be empty
  };
  // Reads at most `rows` more rows; returns false at the end. Throws UserError (input), with file and line,
  // after the rows before the mistake were returned.
  bool next(Window& window, std::int64_t rows);

  const LoadCounts& counts() const { return counts_; }
  std::int64_t bytes() const { return bytes_; }  // of all files
  std::int64_t bytes_read() const { return done_ + (rows_ ? rows_->bytes_read() : 0); }

 private:
  bool open_next();
  void choose_format(std::span<const std::string> names, const Place& at);
  void add_unused(std::span<const std::string> names);
  std::vector<std::string> unused_of(const Row& row, const Place& at) const;
  std::vector<Row> read_rows(std::int64_t most);
  void tokenize(const std::vector<Row>& rows, Window& window);
  void count(const Sample& sample, const Place& at);
  bool has_targets(const Sample& sample) const;
  void count_untrained(const Sample& sample, bool cut, const Place& at);
  bool fit(Sample& sample, const Place& at);
  bool fit_source_and_target(std::vector<std::int32_t>& source, std::vector<std::int32_t>& target,
                             const Place& at);
  bool fit_answers(Sample& sample, const Place& at);
  bool fit_texts(Sample& sample, const Place& at);
  bool fit_prompt(const Sample& sample, const Place& at);
  bool may_cut();

  const DataConfig& config_;
  const DatasetConfig& dataset_;
  const LoadContext& context_;
  std::string setting_;
  std::vector<DataFile> files_;
  std::size_t opened_ = 0;           // number of files opened
  std::unique_ptr<RowReader> rows_;  // of the current file; null: between files
  std::unique_ptr<Format> format_;
  std::exception_ptr trouble_;  // error that ended the reading; thrown after the rows before it
  std::int64_t left_ = 0;       // rows until dataset.max_samples
  std::int64_t bytes_ = 0, done_ = 0;
  LoadCounts counts_;
};

}  // namespace ft
