// Rows of files that hold columns: Parquet (.parquet) and Arrow's IPC streams and files (.arrow). Each row
// becomes an object in JSON, so that formats see one kind of row.
//
// A null is null, a list a list, a struct an object without its null members, a map an object too if its keys
// are texts and else a list of pairs; cell.h has the values. A damaged file is a UserError (exit 3) with its
// name, the row, the column and where in the file that lies. Memory does not depend on the size of the file:
// of Parquet one page and dictionary of each column that is read are held, of Arrow a window on each buffer.
#pragma once
#include <memory>

#include "data/files/files.h"
#include "data/files/row_reader.h"

namespace ft::columnar {

std::unique_ptr<RowReader> open_parquet(const DataFile& file);
std::unique_ptr<RowReader> open_arrow(const DataFile& file);

}  // namespace ft::columnar
