// Caches tokenized data between runs, in `data.dataset_prepared_path`: a safetensors file for each set of
// datasets. Its name is a hash of everything that determines its content: the data files, the tokenizer's
// files, and the settings that turn rows into samples. Any change leads to another file, so outdated data is
// never read.
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

// Samples of several datasets, read one after another.
struct ReadDatasets {
  std::shared_ptr<SampleStore> store;
  // By dataset: its beginning in the store; the last element is the store's size.
  std::vector<std::int64_t> bounds{0};
  LoadCounts counts{};
};

class PreparedFile {
 public:
  // `setting` names the datasets in errors: data.datasets. Reads all files once to hash them.
  PreparedFile(const DataConfig& config, const std::vector<DatasetConfig>& datasets,
               const std::string& setting, const LoadContext& context);

  const std::filesystem::path& path() const { return path_; }
  // Returns nullopt if the file does not exist or is incomplete.
  std::optional<ReadDatasets> read() const;
  // Throws UserError (storage) if the file cannot be written.
  void write(const ReadDatasets& data) const;

 private:
  std::filesystem::path path_;
  std::int64_t vocab_size_;
  bool seq2seq_;
  RowKind kind_;
  WantedLabels wanted_;
  std::size_t datasets_;
};

}  // namespace ft
