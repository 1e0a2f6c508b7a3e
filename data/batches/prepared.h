// Tokenized data cached between runs, in `data.dataset_prepared_path`: a safetensors file for each set of
// datasets, named by a hash of everything that determines its content: the data files, the tokenizer's files,
// and the settings that turn rows into samples. Any change makes another file, so nothing out of date is ever
// read.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batches/load.h"
#include "data/config.h"
#include "data/rows/dataset.h"

namespace ft {

// The samples of datasets read one after another.
struct ReadDatasets {
  std::shared_ptr<SampleStore> store;
  std::vector<std::int64_t> bounds{0};  // (datasets + 1) where each begins in the store; the last is its size
  LoadCounts counts{};
};

class PreparedFile {
 public:
  // `setting` names the datasets in errors: data.datasets. Reads all files once to hash them.
  PreparedFile(const DataConfig& config, const std::vector<DatasetConfig>& datasets,
               const std::string& setting, const LoadContext& context);

  const std::filesystem::path& path() const { return path_; }
  // Nothing: it is not there, or not whole.
  std::optional<ReadDatasets> read() const;
  // UserError (exit 6) when it cannot be written.
  void write(const ReadDatasets& data) const;

 private:
  std::filesystem::path path_;
  std::int64_t vocab_size_;
  bool seq2seq_;
  RowKind kind_;
  std::size_t datasets_;
};

}  // namespace ft
