// The leaves of DeepSpeed's file as rows: what the table of keys says about each by itself.
#pragma once
#include <functional>

#include "app/deepspeed/key.h"
#include "app/deepspeed/report.h"
#include "engine/settings/fields.h"

namespace ft::deepspeed {

// A row and what the table says about it; null: no more is to be done with it.
struct Leaf {
  std::size_t row;  // of Report::rows
  const Key* key;
};

// Every leaf of the file, in its order. Rows without more to be done have their verdict; the others are to
// become settings. `on` says whether a block is on whose `enabled` is "auto".
std::vector<Leaf> read_rows(const SettingsText& file, const std::function<bool(const std::string&)>& on,
                            Report& report);

// The value at a dotted path; null: there is none.
const Json* find_value(const Json& tree, const std::string& path);

}  // namespace ft::deepspeed
