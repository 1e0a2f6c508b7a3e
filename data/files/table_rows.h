// Rows of files that are no JSON: tables (.csv, .tsv) and lines of text (.txt). Each row becomes an object in
// JSON, so that formats see one kind of row.
#pragma once
#include <memory>

#include "data/files/files.h"
#include "data/files/row_reader.h"

namespace ft {

// RFC 4180 with `separator`: the first row names the columns; a field in quotes may hold separators, line
// ends and doubled quotes. Every value is a text.
std::unique_ptr<RowReader> open_table(const DataFile& file, char separator);

// {"text": line} for every line that is not blank.
std::unique_ptr<RowReader> open_text_lines(const DataFile& file);

}  // namespace ft
