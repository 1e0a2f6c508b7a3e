// Reads rows of files without JSON: tables (.csv, .tsv) and lines of text (.txt). Each row becomes a JSON
// object, so that formats see one kind of row.
#pragma once
#include <memory>

#include "data/files/files.h"
#include "data/files/row_reader.h"

namespace ft {

// Reads RFC 4180 with `separator`: the first row names the columns; a quoted field may hold separators, line
// ends and doubled quotes. Every value is a text.
std::unique_ptr<RowReader> open_table(const DataFile& file, char separator);

// Reads each line that is not blank as {"text": line}.
std::unique_ptr<RowReader> open_text_lines(const DataFile& file);

}  // namespace ft
