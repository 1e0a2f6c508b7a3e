// libFuzzer: any bytes as a file of rows: the first byte chooses its name. Rows are parsed, or an error names the
// file and the line.
#include <array>
#include <nlohmann/json.hpp>

#include "data/files/files.h"
#include "data/files/json_row.h"
#include "data/files/row_reader.h"
#include "tests/fuzz/input.h"

namespace {

constexpr std::array kNames{"a.jsonl", "a.json", "a.csv", "a.tsv", "a.txt", "a.jsonl.gz", "a.csv.zst"};
constexpr int kRows = 2000;
// A packed file may expand a thousandfold, and a row may have 64 MiB.
constexpr ft::fuzz::Room kRows64{.base = std::size_t{256} << 20, .times = 4000};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const ft::fuzz::MemoryFolder folder;
  const std::string name = kNames[data[0] % kNames.size()];
  const std::string path = folder.write(name, ft::fuzz::text_of(data + 1, size - 1));
  ft::fuzz::read_within(
      size,
      [&] {
        const auto rows = ft::open_rows({path, name});
        ft::Row row;
        for (int i = 0; i < kRows && rows->next(row); ++i) {
          const ft::Place place{&name, row.line};
          (void)ft::read_row(row.text, place);
          (void)ft::row_names(row.text, place);
          std::array<ft::Field, 2> fields{ft::Field{.name = "text", .required = false, .may_be_list = true},
                                          ft::Field{.name = "input_ids",
                                                    .kind = ft::Field::Kind::integers,
                                                    .required = false}};
          ft::read_fields(row.text, place, fields);
        }
      },
      kRows64);
  return 0;
}
