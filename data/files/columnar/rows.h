// Reads rows of files that store columns: Parquet (.parquet) and Arrow's IPC streams and files (.arrow). Each
// row becomes a JSON object, so that formats see one kind of row.
//
// Nulls become null, lists become lists, structs become objects without their null members. Maps become
// objects if their keys are texts, else lists of pairs. cell.h describes the values. Throws UserError (input)
// if a file is damaged, with its name, the row, the column and the place in the file. Memory does not depend
// on the size of the file: it holds one page and the dictionary of each column that is read from Parquet, and
// a window on each buffer of Arrow.
#pragma once
#include <memory>

#include "data/files/files.h"
#include "data/files/row_reader.h"

namespace ft::columnar {

std::unique_ptr<RowReader> open_parquet(const DataFile& file);
std::unique_ptr<RowReader> open_arrow(const DataFile& file);

}  // namespace ft::columnar
