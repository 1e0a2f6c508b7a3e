// Makes rows of the leaves of DeepSpeed's file. Decides each as far as the table of keys alone can.
#pragma once
#include <functional>

#include "app/deepspeed/key.h"
#include "app/deepspeed/report.h"
#include "engine/settings/fields.h"

namespace ft::deepspeed {

// A row that must become settings, and its key in the table.
struct Leaf {
  std::size_t row;  // index into Report::rows
  const Key* key;
};

// Adds a row to `report` for every leaf of the file, in the file's order. Returns the rows that must still
// become settings; the other rows have their final verdict. `on` tells if a block whose `enabled` is "auto"
// is on.
std::vector<Leaf> read_rows(const SettingsText& file, const std::function<bool(const std::string&)>& on,
                            Report& report);

// Returns the value at a dotted path, or null.
const Json* find_value(const Json& tree, const std::string& path);

}  // namespace ft::deepspeed
