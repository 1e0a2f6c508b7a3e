// libFuzzer: any bytes as a data file of text: JSON lines, a JSON array, CSV, TSV or plain text. Its rows are
// samples of the format that their names show, or an error names the place. The first byte chooses the file's
// format.
#include "data/files/json_row.h"
#include "data/rows/format.h"
#include "tests/fuzz/input.h"

namespace {

constexpr const char* kNames[] = {"f.jsonl", "f.json", "f.csv", "f.tsv", "f.txt"};
constexpr int kRows = 500;

void read_all(const ft::DataFile& file) {
  static const auto tokenizer = ft::make_tokenizer("configs/demo/base");
  static const ft::DataConfig data;
  static const ft::DatasetConfig dataset;
  const ft::FormatContext context{.data = data,
                                  .dataset = dataset,
                                  .setting = "data.datasets[0]",
                                  .vocab_size = tokenizer->size(),
                                  .tokenizer = [] { return std::cref(*tokenizer); },
                                  .tokenizer_path = "configs/demo/base"};
  const auto rows = ft::open_rows(file);
  std::unique_ptr<ft::Format> format;
  ft::Row row;
  for (int i = 0; i < kRows && rows->next(row); ++i) {
    const ft::Place at{&file.name, row.line};
    if (!format) format = ft::make_format(context, ft::row_names(row.text, at), at);
    (void)format->read(row.text, at);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const ft::fuzz::MemoryFolder folder;
  const std::string name = kNames[data[0] % std::size(kNames)];
  const ft::DataFile file{folder.write(name, ft::fuzz::text_of(data + 1, size - 1)), name};
  ft::fuzz::read_within(size, [&] { read_all(file); });
  return 0;
}
